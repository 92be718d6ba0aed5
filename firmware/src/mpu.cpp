// SPDX-License-Identifier: BSD-3-Clause
//
// Memory protection: outside the board's flash, RAM and peripherals nothing is accessible, and
// flash cannot be written. A stray access is a fault, not a value that happens to be right; a stack
// that grows below RAM is one too. (QEMU's MPS2 answers reads of empty addresses with zero
// otherwise.)
#include <cstdint>

#include "board.h"

extern "C" void fq_protect_memory();

namespace {

using fused_quant::firmware::kMemoryRegions;
using fused_quant::firmware::MemoryRegion;

// ARMv7-M Architecture Reference Manual, B3.5: PMSAv7.
constexpr uintptr_t kControl = 0xE000ED94u;
constexpr uintptr_t kRegionNumber = 0xE000ED98u;
constexpr uintptr_t kRegionBase = 0xE000ED9Cu;
constexpr uintptr_t kRegionAttributes = 0xE000EDA0u;
constexpr uint32_t kEnable = 1u;

void write_register(uintptr_t address, uint32_t value) {
  *reinterpret_cast<volatile uint32_t*>(address) = value;
}

}  // namespace

void fq_protect_memory() {
  uint32_t number = 0;
  for (const MemoryRegion& region : kMemoryRegions) {
    write_register(kRegionNumber, number++);
    write_register(kRegionBase, region.base);
    write_register(kRegionAttributes, region.attributes | (region.log2_bytes - 1) << 1 | kEnable);
  }
  // Without PRIVDEFENA: no background region.
  write_register(kControl, kEnable);
  asm volatile("dsb\n isb" ::: "memory");
}
