// SPDX-License-Identifier: BSD-3-Clause
//
// conv2d: regular and grouped convolution.
//
//   acc[o] = bias[o] + sum over kernel_h, kernel_w, in_c / groups of x * weight[o]
//   q[o]   = clamp(output_zero_point + R(acc[o]; multiplier[o], shift[o]), clamp_min, clamp_max)
//
// The bias is folded (bias - input_zero_point * sum(weight[o])), so x is used as stored and a tap
// in the padding counts as a code equal to the input zero point. Any weight code is allowed.
#pragma once

#include "kernels/dot/dot.h"
#include "op.h"

namespace fused_quant {

struct Conv2dParams {
  ConvShape shape;
  uint32_t groups;
  bool has_bias;
  int32_t input_zero_point;
  DotOutput output;
};

// Inputs: x (s8 or s16 [batch, in_h, in_w, in_c]), weight (s8 [out_c, kernel_h, kernel_w, in_c /
// groups]), bias (optional, s32 or, of s16, s64 [out_c]). Output: q (as x, or f32 [batch, out_h,
// out_w, out_c]). x and q may lack the height, of 1.
Status prepare_conv2d(const OpContext& context, void* params, Prepared* prepared);
void conv2d_s8_scalar(const Step& step);
void conv2d_s16_scalar(const Step& step);
void conv2d_s8_xtensa_hifi(const Step& step);

}  // namespace fused_quant
