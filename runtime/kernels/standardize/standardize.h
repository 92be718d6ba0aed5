// SPDX-License-Identifier: BSD-3-Clause
//
// layer_norm and rms_norm: rows divided by the root of their mean square, then weight and bias.
//
//   mu = R(sum x; M(2^7 / N)) or input_zero_point << 7;  d = (x << 7) - mu        |d| <= 2^15
//   A  = sum((d * d + 2^(t-1)) >> t) + epsilon,  t = max(1, ceil(log2 N))         1..2^31 - 1
//   h  = (clz32(A) - 1) & ~1;  r = rsqrt(((A << h) >> 15) - 32768)                0..32767
//   u  = sat16((d * r + 2^(v-1)) >> v),  v = 19 - h / 2                           4 <= v <= 19
//   q  = clamp(output_zero_point + R(u * weight + bias; output_multiplier, output_shift))
//
// Of s8, N <= 4096; |weight| <= 32767 and |bias| <= 2^30, so the sum stays below 2^31. An absent
// weight counts as 32767, an absent bias as 0. The mean is subtracted by layer_norm only.
// Of s16: kernels/standardize_wide/standardize_wide.h.
#pragma once

#include "kernels/normalize/normalize.h"
#include "op.h"

namespace fused_quant {

struct StandardizeParams {
  NormalizeRows rows;
  NormalizeOutput output;
  int32_t mean_multiplier;  // of 2^7 / N
  uint32_t mean_shift;
  int32_t center;         // of rms_norm: input_zero_point << 7
  uint32_t square_shift;  // t
  int32_t epsilon;
  int64_t wide_epsilon;  // s16
};

// With `centred`, inputs: x (s8 or s16), weight (s16 or absent), bias (s32, of s16 codes s64, or
// absent); else without a bias.
Status prepare_standardize(const OpContext& context, bool centred, void* params,
                           Prepared* prepared);

void standardize_s8(const Step& step, bool centred);

}  // namespace fused_quant
