// SPDX-License-Identifier: BSD-3-Clause
//
// layer_norm and rms_norm of 16-bit codes, whose zero points are 0, over N <= 2^14 of them.
// rms_norm is without the two terms in sum x.
//
//   W = N * sum x^2 - (sum x)^2 + wide_epsilon                                     1..2^61
//   h even with 2^60 <= W << h < 2^62;  r = min(2^61 div isqrt(W << h), 2^31 - 1)
//   u = ((N * x - sum x) * r + 2^(v-1)) >> v,  v = 45 - h / 2                      15..45
//   q = clamp(R(u * weight + bias; output_multiplier, output_shift))
//
// |N * x - sum x| < 2^30, so its product with r stays below 2^61. (N * x - sum x)^2 <= N * W bounds
// |u| by 2^23 and a little; |bias| <= 2^46.
#pragma once

#include "kernels/standardize/standardize.h"

namespace fused_quant {

// What prepare_standardize leaves open: the bias (s64 or absent), zero points and epsilon.
Status prepare_standardize_wide(const OpContext& context, const schema::NormalizeParams& given,
                                StandardizeParams* p);

void standardize_s16(const Step& step, bool centred);

}  // namespace fused_quant
