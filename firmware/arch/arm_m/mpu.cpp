// SPDX-License-Identifier: BSD-3-Clause
//
// Memory protection: outside the board's flash, RAM and peripherals nothing is accessible, and
// flash cannot be written. A stray access is a fault, not a value that happens to be right; a stack
// that grows below RAM is one too. (QEMU's MPS2 answers reads of empty addresses with zero
// otherwise.) A core may have no MPU: the micro:bit's.
#include <cstdint>

#include "board.h"

extern "C" void fq_protect_memory();

namespace {

using fused_quant::firmware::kFlash;
using fused_quant::firmware::kPeripherals;
using fused_quant::firmware::kRam;
using fused_quant::firmware::MemoryRegion;

constexpr uintptr_t kType = 0xE000ED90u;
constexpr uintptr_t kControl = 0xE000ED94u;
constexpr uintptr_t kRegionNumber = 0xE000ED98u;
constexpr uintptr_t kRegionBase = 0xE000ED9Cu;
constexpr uintptr_t kRegionSecond = 0xE000EDA0u;  // RASR of PMSAv7, RLAR of PMSAv8
constexpr uint32_t kEnable = 1u;

enum class Access : uint32_t { kCode, kData, kDevice };

void write_register(uintptr_t address, uint32_t value) {
  *reinterpret_cast<volatile uint32_t*>(address) = value;
}

#if __ARM_ARCH >= 8

// ARMv8-M Architecture Reference Manual, D1.2: MPU_RBAR, MPU_RLAR, MPU_MAIR0.
constexpr uintptr_t kAttributes = 0xE000EDC0u;

void set_attributes() {
  write_register(kAttributes, 0x000000AAu);  // 0: write-through memory, 1: device
}

void open_region(const MemoryRegion& region, Access access) {
  constexpr uint32_t kReadOnly = 3u << 1;
  constexpr uint32_t kReadWriteNoExecute = 1u << 1 | 1u;
  const uint32_t attribute = access == Access::kDevice ? 1u : 0u;
  const uint32_t last = region.base + ((1u << region.log2_bytes) - 1);
  write_register(kRegionBase,
                 region.base | (access == Access::kCode ? kReadOnly : kReadWriteNoExecute));
  write_register(kRegionSecond, (last & ~31u) | attribute << 1 | kEnable);
}

#else

void set_attributes() {}

// ARMv7-M Architecture Reference Manual, B3.5: PMSAv7.
void open_region(const MemoryRegion& region, Access access) {
  constexpr uint32_t kReadOnly = 6u << 24;
  constexpr uint32_t kReadWriteNoExecute = 3u << 24 | 1u << 28;
  constexpr uint32_t kWriteThrough = 1u << 17;
  constexpr uint32_t kDeviceMemory = 1u << 16;
  write_register(kRegionBase, region.base);
  write_register(kRegionSecond, (access == Access::kCode ? kReadOnly : kReadWriteNoExecute) |
                                    (access == Access::kDevice ? kDeviceMemory : kWriteThrough) |
                                    (region.log2_bytes - 1) << 1 | kEnable);
}

#endif

}  // namespace

void fq_protect_memory() {
  constexpr uint32_t kRegions = 0xFF00u;
  if ((*reinterpret_cast<volatile const uint32_t*>(kType) & kRegions) == 0) {
    return;
  }
  set_attributes();
  write_register(kRegionNumber, 0);
  open_region(kFlash, Access::kCode);
  write_register(kRegionNumber, 1);
  open_region(kRam, Access::kData);
  write_register(kRegionNumber, 2);
  open_region(kPeripherals, Access::kDevice);
  // Without PRIVDEFENA: no background region.
  write_register(kControl, kEnable);
  asm volatile("dsb\n isb" ::: "memory");
}
