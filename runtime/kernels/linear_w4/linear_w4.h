// SPDX-License-Identifier: BSD-3-Clause
//
// linear_w4: linear with a weight of 4 bits. Formulas, also of groups: kernels/w4/w4.h. x and q are
// read as rows, as in linear.
#pragma once

#include "kernels/w4/w4.h"
#include "op.h"

namespace fused_quant {

struct LinearW4Params {
  uint32_t rows;
  uint32_t in_c;
  uint32_t out_c;
  W4Output output;
};

// Inputs: x (s8, rows * in_c elements), weight (s4 [out_c, in_c]), bias (s32, or s64 with groups
// [out_c], optional). Output: q (s8 or, without groups, f32, rows * out_c elements). Scratch: a row
// of the weight.
Status prepare_linear_w4(const OpContext& context, void* params, Prepared* prepared);
void linear_w4_s8_scalar(const Step& step);

}  // namespace fused_quant
