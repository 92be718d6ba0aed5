// SPDX-License-Identifier: BSD-3-Clause
//
// What measuring needs of an Arm board: the stack pointer, and a clock: a counter of its FPGA, or
// the SysTick timer of the core.
#pragma once

#include <cstdint>

#include "board.h"

namespace fused_quant::firmware {

inline constexpr uintptr_t kSysTickControl = 0xE000E010u;
inline constexpr uintptr_t kSysTickReload = 0xE000E014u;
inline constexpr uintptr_t kSysTickCurrent = 0xE000E018u;
inline constexpr bool kCountsWithSysTick = kCounterAddress == kSysTickCurrent;

// Values the counter takes on, less one.
inline constexpr uint32_t kCounterMask = kCountsWithSysTick ? 0x00FFFFFFu : 0xFFFFFFFFu;

inline uint32_t read_word(uintptr_t address) {
  return *reinterpret_cast<volatile const uint32_t*>(address);
}

inline void start_counter() {
  // Without a reference clock, the bit that selects the processor clock reads as one: look at
  // ENABLE.
  if (!kCountsWithSysTick || (read_word(kSysTickControl) & 1u) != 0) return;
  *reinterpret_cast<volatile uint32_t*>(kSysTickReload) = kCounterMask;
  *reinterpret_cast<volatile uint32_t*>(kSysTickCurrent) = 0;
  *reinterpret_cast<volatile uint32_t*>(kSysTickControl) = 5;  // processor clock, no interrupt
}

// SysTick counts down.
inline uint32_t read_counter() {
  const uint32_t value = read_word(kCounterAddress);
  return kCountsWithSysTick ? kCounterMask - value : value;
}

inline const uint32_t* stack_pointer() {
  const uint32_t* pointer;
  asm volatile("mov %0, sp" : "=r"(pointer));
  return pointer;
}

}  // namespace fused_quant::firmware
