// SPDX-License-Identifier: BSD-3-Clause
//
// linear: rows of x against rows of the weight.
//
//   acc[r][o] = bias[o] + sum over k of x[r][k] * weight[o][k]
//   q[r][o]   = clamp(output_zero_point + R(acc[r][o]; multiplier[o], shift[o]), clamp_min,
//   clamp_max)
//
// The bias is folded as for conv2d. x and q are read as [rows, in_c] and [rows, out_c] whatever
// their shapes, since a flatten in front of a linear leaves the bytes where they are.
#pragma once

#include "kernels/dot/dot.h"
#include "op.h"

namespace fused_quant {

struct LinearParams {
  uint32_t rows;
  uint32_t in_c;
  uint32_t out_c;
  bool has_bias;
  DotOutput output;
};

// Inputs: x (s8 or s16, rows * in_c elements), weight (s8 [out_c, in_c]), bias (optional, s32 or,
// of s16, s64 [out_c]). Output: q (as x, or f32; rows * out_c elements).
Status prepare_linear(const OpContext& context, void* params, Prepared* prepared);
void linear_s8_scalar(const Step& step);
void linear_s16_scalar(const Step& step);
void linear_s8_xtensa_hifi(const Step& step);

}  // namespace fused_quant
