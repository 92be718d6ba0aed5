// SPDX-License-Identifier: BSD-3-Clause
//
// depthwise_conv2d: convolution with one input channel per output channel: output channel o reads
// input channel o / multiplier, multiplier = out_c / in_c >= 1.
//
//   acc[o] = bias[o] + sum over kernel_h, kernel_w of x[o / multiplier] * weight[..][o]
//   q[o]   = clamp(output_zero_point + R(acc[o]; multiplier[o], shift[o]), clamp_min, clamp_max)
//
// Bias and padding as for conv2d.
#pragma once

#include "kernels/dot/dot.h"
#include "op.h"

namespace fused_quant {

struct DepthwiseConv2dParams {
  ConvShape shape;
  uint32_t channel_multiplier;
  bool has_bias;
  int32_t input_zero_point;
  DotOutput output;
};

// Inputs: x (s8 or s16 [batch, in_h, in_w, in_c]), weight (s8 [kernel_h, kernel_w, out_c]), bias
// (optional, s32 or, of s16, s64 [out_c]). Output: q (as x, or f32 [batch, out_h, out_w, out_c]). x
// and q may lack the height, of 1. Scratch: out_c accumulators.
Status prepare_depthwise_conv2d(const OpContext& context, void* params, Prepared* prepared);
void depthwise_conv2d_s8_scalar(const Step& step);
void depthwise_conv2d_s16_scalar(const Step& step);

}  // namespace fused_quant
