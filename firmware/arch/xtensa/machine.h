// SPDX-License-Identifier: BSD-3-Clause
//
// What measuring needs of an Xtensa core: the stack pointer and CCOUNT.
#pragma once

#include <cstdint>

#include "board.h"

namespace fused_quant::firmware {

inline constexpr uint32_t kCounterMask = 0xFFFFFFFFu;

inline void start_counter() {}

inline uint32_t read_counter() {
  uint32_t value;
  asm volatile("rsr %0, ccount" : "=r"(value)::"memory");
  return value;
}

inline const uint32_t* stack_pointer() {
  const uint32_t* pointer;
  asm volatile("mov %0, a1" : "=r"(pointer));
  return pointer;
}

}  // namespace fused_quant::firmware
