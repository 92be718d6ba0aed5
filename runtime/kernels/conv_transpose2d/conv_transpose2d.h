// SPDX-License-Identifier: BSD-3-Clause
//
// conv_transpose2d: transposed convolution, with groups, dilation and output padding.
//
//   acc[o] = bias[o] + sum over the taps that reach the position, and in_c / groups, of
//            (x - input_zero_point) * weight[o]
//   q[o]   = clamp(output_zero_point + R(acc[o]; multiplier[o], shift[o]), clamp_min, clamp_max)
//
// Tap k brings input position i to output position i * stride - pad_before + k * dilation. The sum
// is gathered per output position; where no tap reaches, it is the bias. Each position has other
// taps, hence the bias is not folded. Any weight code is allowed.
#pragma once

#include "kernels/dot/dot.h"
#include "op.h"

namespace fused_quant {

struct ConvTranspose2dParams {
  ConvShape shape;
  uint32_t groups;
  bool has_bias;
  int32_t input_zero_point;
  DotOutput output;
};

// Inputs: x (s8 or s16 [batch, in_h, in_w, in_c]), weight (s8 [out_c, kernel_h, kernel_w, in_c /
// groups]), bias (optional, s32 or, of s16, s64 [out_c]). Output: q (as x, or f32 [batch, out_h,
// out_w, out_c]). x and q may lack the height, of 1. Scratch: out_c accumulators.
Status prepare_conv_transpose2d(const OpContext& context, void* params, Prepared* prepared);
void conv_transpose2d_s8_scalar(const Step& step);
void conv_transpose2d_s16_scalar(const Step& step);

}  // namespace fused_quant
