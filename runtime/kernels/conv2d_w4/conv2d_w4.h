// SPDX-License-Identifier: BSD-3-Clause
//
// conv2d_w4: conv2d, also depthwise, with a weight of 4 bits. Formulas, also of groups with
// multipliers of their own: kernels/w4/w4.h. Bias and padding as for conv2d: a tap in the padding
// has the code input_zero_point.
#pragma once

#include "kernels/w4/w4.h"
#include "op.h"

namespace fused_quant {

struct Conv2dW4Params {
  ConvShape shape;
  uint32_t groups;  // of the convolution
  uint32_t depth;   // input channels of such a group
  int32_t input_zero_point;
  W4Output output;
};

// Inputs: x (s8 [batch, in_h, in_w, in_c]), weight (s4 [out_c, kernel_h, kernel_w, in_c / groups]),
// bias (s32, or s64 with groups of multipliers [out_c], optional). Output: q (s8 or, without such
// groups, f32 [batch, out_h, out_w, out_c]). x and q may lack the height, of 1. Scratch: one
// filter.
Status prepare_conv2d_w4(const OpContext& context, void* params, Prepared* prepared);
void conv2d_w4_s8_scalar(const Step& step);

}  // namespace fused_quant
