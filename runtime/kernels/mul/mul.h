// SPDX-License-Identifier: BSD-3-Clause
//
// mul: product of two tensors with their own quantizations.
//
//   q = clamp(output_zero_point + R((a - zero_point_a) * (b - zero_point_b);
//                                   output_multiplier, output_shift), lo, hi)
//
// Shapes broadcast as those of add do. |product| <= 2^31 - 1 for every code, which
// prepare verifies (s8: 255 * 255; s16 with zero points 0: 2^30).
#pragma once

#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

struct MulParams {
  StridedLoop<2> loop;
  int32_t zero_point[2];
  int32_t multiplier;
  uint32_t shift;
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: a, b. Output: q. All s8 or all s16.
Status prepare_mul(const OpContext& context, void* params, Prepared* prepared);
void mul_s8_scalar(const Step& step);
void mul_s16_scalar(const Step& step);

}  // namespace fused_quant
