// SPDX-License-Identifier: BSD-3-Clause
//
// lut: any function of one code, as a table.
//
//   s8:   q = T[x + 128]                                                     all results
//   s16:  q = clamp(((T[i] << 7) + (T[i + 1] - T[i]) * (x & 127) + 64) >> 7)  every 128th result,
//         i = (x + 32768) >> 7                                               0..511
//
// The table is computed ahead of time (docs/numerics.md); zero points and rounding are in it, for
// s8 the clamp bounds too. Elements keep their stored order, whatever the shapes. The interpolated
// value lies between two entries, and no term exceeds 65535 * 127.
#pragma once

#include "op.h"

namespace fused_quant {

struct LutParams {
  uint32_t count;
  int32_t clamp_min;  // s16
  int32_t clamp_max;
};

// Inputs: x, T (constant, 256 elements of s8 or 513 of s16). Output: q, as many elements as x. All
// of one dtype, s8 or s16. Of ElementwiseParams only the clamp is used, for s16.
Status prepare_lut(const OpContext& context, void* params, Prepared* prepared);
void lut_s8_scalar(const Step& step);
void lut_s16_scalar(const Step& step);

}  // namespace fused_quant
