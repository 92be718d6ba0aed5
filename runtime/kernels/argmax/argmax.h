// SPDX-License-Identifier: BSD-3-Clause
//
// argmax: where the first largest code stands.
//
//   y = position of the first x that no other exceeds, counted over `axes` in stored order
//
// Dequantizing keeps the order of codes, so this is the position of the largest real number.
#pragma once

#include "op.h"

namespace fused_quant {

// Input: x (s8 or s16). Output: y (s64). Of ReduceParams only `axes` counts. Sizes of one may be
// kept or dropped.
Status prepare_argmax(const OpContext& context, void* params, Prepared* prepared);
void argmax_scalar(const Step& step);

}  // namespace fused_quant
