// SPDX-License-Identifier: BSD-3-Clause
//
// softmax over some stored dimensions, at most 65,536 elements together.
//
//   d  = xmax - x;  e = E[d]                                      0..32767, E[0] = 32767
//   S  = sum e;  h = clz32(S)                                     below 2^31; 1 <= h <= 17
//   Sn = ((S << (h - 1)) + 2^14) >> 15;  r = (2^31 - 1) div Sn    2^15..2^16; below 2^16
//   p  = min((e * r + 2^(38 - h)) >> (39 - h), 255)               units of 1/256
//   q  = clamp(output_zero_point + R(p; output_multiplier, output_shift))
//
// On the grid (1/256, -128) R is the identity. E holds 2^15 * exp(-d * scale), made ahead of time.
#pragma once

#include "kernels/normalize/normalize.h"
#include "op.h"

namespace fused_quant {

struct SoftmaxParams {
  NormalizeRows rows;
  NormalizeOutput output;
};

// Inputs: x (s8), E (s16 [256], constant). Output: q (s8), as x is stored.
Status prepare_softmax(const OpContext& context, void* params, Prepared* prepared);
void softmax_s8_scalar(const Step& step);

}  // namespace fused_quant
