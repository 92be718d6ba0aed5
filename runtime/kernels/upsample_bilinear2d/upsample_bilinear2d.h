// SPDX-License-Identifier: BSD-3-Clause
//
// upsample_bilinear2d: a weighted mean of four neighbours.
//
//   acc = sum over a, b in {0, 1} of u_a * v_b * (x[row_a, column_b] - input_zero_point)
//   q   = clamp(output_zero_point + R(acc; multiplier, shift), lo, hi)
//
// For every output row, `rows` holds the two input rows and the weight u_1 of the second, an
// integer in [0, 2^11]; u_0 = 2^11 - u_1. `columns` holds the same for every output column. The
// weights of a pixel add up to 2^22, so that |acc| <= 255 * 2^22 < 2^31 of s8. Of s16 it is
// below 2^38 in 64 bits, and output_zero_point is 0.
#pragma once

#include "op.h"

namespace fused_quant {

constexpr int32_t kBilinearOne = 1 << 11;

struct UpsampleBilinear2dParams {
  uint32_t outer;  // elements of the dimensions before the two that are resized
  uint32_t in_h;
  uint32_t in_w;
  uint32_t out_h;
  uint32_t out_w;
  uint32_t inner;  // elements of the dimensions behind them
  int32_t input_zero_point;
  int32_t multiplier;
  uint32_t shift;
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: x (s8 or s16), rows (constant s32 [out_h, 3]), columns (constant s32 [out_w, 3]). Output:
// q (as x). The resized dimensions are neighbours in the stored order, rows first.
Status prepare_upsample_bilinear2d(const OpContext& context, void* params, Prepared* prepared);
void upsample_bilinear2d_s8_scalar(const Step& step);
void upsample_bilinear2d_s16_scalar(const Step& step);

}  // namespace fused_quant
