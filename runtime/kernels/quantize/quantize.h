// SPDX-License-Identifier: BSD-3-Clause
//
// quantize: float32 to codes, at the boundary of the delegate.
//
//   q[i] = clamp(zero_point + RNE(x[perm(i)] * inverse_scale), clamp_min, clamp_max)
//
// The product is one float32 multiply rounded to nearest even, RNE rounds half to even, both on bit
// patterns (numerics/float32.h). Values beyond the range, infinities included, give the nearer
// bound; NaN counts as real 0. inverse_scale is in [2^-126, 2^126].
#pragma once

#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

struct QuantizeParams {
  StridedLoop<1> loop;
  uint32_t inverse_scale;  // bit pattern
  int32_t zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: x (f32). Output: q (s8 or s16).
Status prepare_quantize(const OpContext& context, void* params, Prepared* prepared);
void quantize_s8_scalar(const Step& step);
void quantize_s16_scalar(const Step& step);

}  // namespace fused_quant
