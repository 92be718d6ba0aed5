// SPDX-License-Identifier: BSD-3-Clause
//
// Arm MPS2 (AN385: Cortex-M3, AN386: Cortex-M4F) as QEMU models it.
#pragma once

#include <cstdint>

namespace fused_quant::firmware {

// FPGAIO counter, one tick per cycle of the 25 MHz system clock.
inline constexpr uintptr_t kCounterAddress = 0x40028018u;
inline constexpr uint32_t kCounterMHz = 25;
// QEMU runs with -icount shift=7: an instruction takes 2^7 ns of emulated time.
inline constexpr uint32_t kNanosecondsPerInstruction = 128;

// A region the MPU opens: `base` is a multiple of 2^log2_bytes.
struct MemoryRegion {
  uint32_t base;
  uint32_t log2_bytes;
  uint32_t attributes;  // of MPU_RASR, without size and enable
};

inline constexpr uint32_t kReadOnly = 6u << 24;
inline constexpr uint32_t kReadWrite = 3u << 24;
inline constexpr uint32_t kNoExecute = 1u << 28;
inline constexpr uint32_t kNormalMemory = 2u << 16;  // C: write-through
inline constexpr uint32_t kDeviceMemory = 1u << 16;  // B

inline constexpr MemoryRegion kMemoryRegions[] = {
    {0x00000000u, 22, kReadOnly | kNormalMemory},
    {0x20000000u, 22, kReadWrite | kNoExecute | kNormalMemory},
    {0x40000000u, 20, kReadWrite | kNoExecute | kDeviceMemory},
};

}  // namespace fused_quant::firmware
