// SPDX-License-Identifier: BSD-3-Clause
//
// adaptive_avg_pool2d: the average of windows that cover the input: output i of an axis averages
// the input positions [floor(i * in / out), ceil((i + 1) * in / out)). Rounded once
// (kernels/window/average.h); the divisor is the number of elements.
#pragma once

#include "kernels/window/average.h"
#include "kernels/window/pool.h"
#include "op.h"

namespace fused_quant {

struct AdaptiveAvgPool2dParams {
  PoolShape shape;
  Average average;
};

// Input: x [batch, in_h, in_w, channels]. Output: q [batch, out_h, out_w, channels]. Both s8 or
// s16.
Status prepare_adaptive_avg_pool2d(const OpContext& context, void* params, Prepared* prepared);
void adaptive_avg_pool2d_s8_scalar(const Step& step);
void adaptive_avg_pool2d_s16_scalar(const Step& step);

}  // namespace fused_quant
