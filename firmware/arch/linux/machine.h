// SPDX-License-Identifier: BSD-3-Clause
//
// What measuring needs of Linux: nothing is counted, and the stack is not painted.
#pragma once

#include <cstdint>

namespace fused_quant::firmware {

inline constexpr uint32_t kCounterMHz = 1000;
inline constexpr uint32_t kCounterMask = 0xFFFFFFFFu;

inline void start_counter() {}
inline uint32_t read_counter() { return 0; }
inline const uint32_t* stack_pointer() { return nullptr; }

}  // namespace fused_quant::firmware
