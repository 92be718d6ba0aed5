// SPDX-License-Identifier: BSD-3-Clause
//
// max_pool2d: the largest code of each window, padding excluded.
//
//   equal quantization: q = clamp(max)
//   otherwise:          q = clamp(output_zero_point + R(max - input_zero_point; multiplier, shift))
//
// R is monotonic, so requantizing the largest code is requantizing the largest value.
#pragma once

#include "kernels/window/pool.h"
#include "op.h"

namespace fused_quant {

struct MaxPool2dParams {
  PoolShape shape;
  WindowAxis h;
  WindowAxis w;
  bool requantize;
  uint8_t shift;
  int32_t multiplier;
  int32_t input_zero_point;
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Input: x [batch, in_h, in_w, channels]. Output: q [batch, out_h, out_w, channels]. Both s8 or
// s16.
Status prepare_max_pool2d(const OpContext& context, void* params, Prepared* prepared);
void max_pool2d_s8_scalar(const Step& step);
void max_pool2d_s16_scalar(const Step& step);

}  // namespace fused_quant
