// SPDX-License-Identifier: BSD-3-Clause
//
// The average of avg_pool2d and adaptive_avg_pool2d: from the sum of (x - input_zero_point) over a
// window and its divisor n to a code.
//
//   equal quantization (no table): q = clamp(zero_point + divide_half_away(sum, n))
//   otherwise:                     q = clamp(output_zero_point + R(sum; multiplier_n, shift_n))
#pragma once

#include <cstdint>

#include "op.h"
#include "status.h"

namespace fused_quant {

// Table entries a payload may hold. A pool has one for each way its windows overlap the input: one
// or a few.
constexpr uint32_t kMaxAverageCounts = 256;

struct Average {
  const uint32_t* count;  // the table, in the payload; null = equal quantization
  const int32_t* multiplier;
  const uint8_t* shift;
  uint32_t table_size;
  int32_t input_zero_point;
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Checks everything but the divisors and copies.
Status prepare_average(const OpContext& context, const schema::WindowParams& given,
                       Average* average);

// The table entry of divisor `n`, or table_size if there is none.
uint32_t find_count(const Average& average, uint32_t n);

// n is positive, below 2^31, and in the table if there is one.
Status check_divisor(const OpContext& context, const Average& average, uint64_t n);

// y[c] = average of acc[c], for one window of divisor `n`. T is int8_t or int16_t.
template <typename T>
void store_average(const Average& average, uint32_t n, const int32_t* acc, uint32_t channels, T* y);

}  // namespace fused_quant
