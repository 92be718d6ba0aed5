// SPDX-License-Identifier: BSD-3-Clause
//
// What maximum and minimum share: two operands on the output's grid, then the larger or smaller.
//
//   t_k = clamp(output_zero_point + R(x_k - zero_point_k; multiplier_k, shift_k), lo, hi)
//   q   = max(t_a, t_b) or min(t_a, t_b)
//
// Shapes broadcast as those of add do. |x_k - zero_point_k| <= 65535.
#pragma once

#include "numerics/requantize.h"
#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

struct ExtremumParams {
  StridedLoop<2> loop;
  int32_t zero_point[2];
  int32_t multiplier[2];
  uint32_t shift[2];
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: a, b. Output: q. All s8, or all s16.
Status prepare_extremum(const OpContext& context, void* params, Prepared* prepared);

// choose(t_a, t_b) is q.
template <typename T, typename Choose>
void extremum(const Step& step, Choose choose) {
  const auto& p = step.params<ExtremumParams>();
  const T* a = step.input<T>(0);
  const T* b = step.input<T>(1);
  T* y = step.output<T>(0);
  const uint32_t a_stride = p.loop.stride[0][p.loop.rank - 1];
  const uint32_t b_stride = p.loop.stride[1][p.loop.rank - 1];
  const auto term = [&p](T code, uint32_t k) {
    return requantize(code - p.zero_point[k], p.multiplier[k], p.shift[k], p.output_zero_point,
                      p.clamp_min, p.clamp_max);
  };
  for_each_row(p.loop, [&](uint32_t to, const uint32_t(&from)[2], uint32_t length) {
    const T* a_row = a + from[0];
    const T* b_row = b + from[1];
    for (uint32_t i = 0; i < length; ++i) {
      y[to + i] =
          static_cast<T>(choose(term(a_row[i * a_stride], 0), term(b_row[i * b_stride], 1)));
    }
  });
}

}  // namespace fused_quant
