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
//
// Of s16, with E of 512 entries (kernels/normalize/normalize.h, split_decay):
//
//   e = (E[d mod 256] * E[256 + d div 256] + 2^29) >> 30                         at most 2^30
//   S = sum e;  k = 33 - clz64(S);  r = 2^61 div (S >> k)                        2^30..2^46; 0..16
//   p = (e * r + 2^(45 + k)) >> (46 + k)                                         units of 2^-15
//   q = clamp(output_zero_point + R(p; output_multiplier, output_shift))
#pragma once

#include "kernels/normalize/normalize.h"
#include "op.h"

namespace fused_quant {

struct SoftmaxParams {
  NormalizeRows rows;
  NormalizeOutput output;
};

// Inputs: x (s8 or s16), E (constant, s16 [256] or s32 [512]). Output: q, as x is stored.
Status prepare_softmax(const OpContext& context, void* params, Prepared* prepared);
void softmax_s8_scalar(const Step& step);
void softmax_s16_scalar(const Step& step);

}  // namespace fused_quant
