// SPDX-License-Identifier: BSD-3-Clause
//
// dequantize: codes to float32, at the boundary of the delegate.
//
//   y[i] = float(q[perm(i)] - zero_point) * scale
//
// One float32 multiply rounded to nearest even (numerics/float32.h); the conversion is exact. scale
// is in [2^-126, 2^126].
#pragma once

#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

struct DequantizeParams {
  StridedLoop<1> loop;
  uint32_t scale;  // bit pattern
  int32_t zero_point;
};

// Inputs: q (s8 or s16). Output: y (f32).
Status prepare_dequantize(const OpContext& context, void* params, Prepared* prepared);
void dequantize_s8_scalar(const Step& step);
void dequantize_s16_scalar(const Step& step);

}  // namespace fused_quant
