// SPDX-License-Identifier: BSD-3-Clause
//
// div: quotient of two tensors with their own quantizations.
//
// With n = a - zero_point_a, d = b - zero_point_b, signs moved so that d > 0, and (m, s) the first
// multiplier and shift:
//
//   nearest: t = floor((n * m + d * 2^(s - 1)) / (d * 2^s));  q = clamp(output_zero_point + t)
//   floor:   t = floor(n * m / (d * 2^s));  trunc: the same on magnitudes;
//            q = clamp(output_zero_point + R(t; output_multiplier, output_shift))
//
// t saturates to int32. d = 0 gives t = the end of int32 on the side of n's sign, 0 for n = 0.
// Shapes broadcast as those of add do. |n * m| <= 65535 * (2^31 - 1) < 2^47.
#pragma once

#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

struct DivParams {
  StridedLoop<2> loop;
  int32_t zero_point[2];
  int32_t multiplier;
  uint32_t shift;
  schema::Rounding rounding;
  int32_t output_multiplier;
  uint32_t output_shift;
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: a, b. Output: q. All s8, or all s16.
Status prepare_div(const OpContext& context, void* params, Prepared* prepared);
void div_s8_scalar(const Step& step);
void div_s16_scalar(const Step& step);

}  // namespace fused_quant
