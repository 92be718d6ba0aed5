// SPDX-License-Identifier: BSD-3-Clause
//
// conv3d: convolution over depth, height and width, with groups.
//
//   acc[o] = bias[o] + sum over kernel_d, kernel_h, kernel_w, in_c / groups of
//            (x - input_zero_point) * weight[o], where a tap in the padding adds 0
//   q[o]   = clamp(output_zero_point + R(acc[o]; multiplier[o], shift[o]), clamp_min, clamp_max)
//
// The bias is not folded, so that a tap in the padding is one left out. Any weight code is allowed.
#pragma once

#include "kernels/dot/dot.h"
#include "op.h"

namespace fused_quant {

struct Conv3dParams {
  uint32_t batch;
  uint32_t in_c;
  uint32_t out_c;
  WindowAxis d;
  WindowAxis h;
  WindowAxis w;
  uint32_t groups;
  bool has_bias;
  int32_t input_zero_point;
  DotOutput output;
};

// Inputs: x (s8 or s16 [batch, in_d, in_h, in_w, in_c]), weight (s8 [out_c, kernel_d, kernel_h,
// kernel_w, in_c / groups]), bias (optional, s32 or, of s16, s64 [out_c]). Output: q (as x, or f32
// [batch, out_d, out_h, out_w, out_c]). Scratch: out_c accumulators.
Status prepare_conv3d(const OpContext& context, void* params, Prepared* prepared);
void conv3d_s8_scalar(const Step& step);
void conv3d_s16_scalar(const Step& step);

}  // namespace fused_quant
