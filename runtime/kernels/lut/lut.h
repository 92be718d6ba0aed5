// SPDX-License-Identifier: BSD-3-Clause
//
// lut: any function of one code, as a table of all its results.
//
//   q = T[x + 128]
//
// The table is computed ahead of time (docs/numerics.md); zero points, rounding and clamp bounds
// are in it. Elements keep their stored order, whatever the shapes. An index is 0 to 255.
#pragma once

#include "op.h"

namespace fused_quant {

struct LutParams {
  uint32_t count;
};

// Inputs: x (s8), T (s8, constant, 256 elements). Output: q (s8), as many elements as x. Of
// ElementwiseParams no field is used.
Status prepare_lut(const OpContext& context, void* params, Prepared* prepared);
void lut_s8_scalar(const Step& step);

}  // namespace fused_quant
