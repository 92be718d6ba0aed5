// SPDX-License-Identifier: BSD-3-Clause
//
// log_softmax over some stored dimensions, at most 65,536 elements together.
//
//   d = xmax - x;  S = sum E[d]                       E[0] = 2^30; 2^30 <= S <= 2^46
//   k = 33 - clz64(S);  m = S >> k                    2^30..2^31 - 1
//   i = (m >> 23) - 128;  f = m & (2^23 - 1)
//   l = k * L[128] + L[i] + (((L[i+1] - L[i]) * f + 2^22) >> 23)      ln(S / 2^30) in 2^-26
//   q = clamp(output_zero_point
//             + R(-(R(d; input_*) + R(l; sum_*)); output_multiplier, output_shift))
//
// E holds 2^30 * exp(-d * scale), of s16 by split_decay (kernels/normalize/normalize.h); L[i] holds
// 2^26 * ln(1 + i / 128); both are made ahead of time. Each inner R is checked to stay at or below
// 2^29, so their sum fits int32.
#pragma once

#include "kernels/normalize/normalize.h"
#include "op.h"

namespace fused_quant {

struct LogSoftmaxParams {
  NormalizeRows rows;
  NormalizeOutput output;
  int32_t input_multiplier;
  uint32_t input_shift;
  int32_t sum_multiplier;
  uint32_t sum_shift;
};

// Inputs: x (s8 or s16), E (constant, s32 [256] or [512]), L (s32 [129], constant). Output: q, as x
// is stored.
Status prepare_log_softmax(const OpContext& context, void* params, Prepared* prepared);
void log_softmax_s8_scalar(const Step& step);
void log_softmax_s16_scalar(const Step& step);

}  // namespace fused_quant
