// SPDX-License-Identifier: BSD-3-Clause
//
// avg_pool2d: the average of each window, rounded once (kernels/window/average.h). The divisor is
// divisor_override if given; else the number of window elements inside the input, or inside the
// input and its explicit padding if count_include_pad. Padding counts as real 0.
#pragma once

#include "kernels/window/average.h"
#include "kernels/window/pool.h"
#include "op.h"

namespace fused_quant {

struct AvgPool2dParams {
  PoolShape shape;
  WindowAxis h;  // dilation 1
  WindowAxis w;
  bool count_include_pad;
  uint32_t divisor_override;  // 0 = none
  Average average;
};

// Input: x [batch, in_h, in_w, channels]. Output: q [batch, out_h, out_w, channels]. Both s8 or
// s16.
Status prepare_avg_pool2d(const OpContext& context, void* params, Prepared* prepared);
void avg_pool2d_s8_scalar(const Step& step);
void avg_pool2d_s16_scalar(const Step& step);

}  // namespace fused_quant
