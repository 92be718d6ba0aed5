// SPDX-License-Identifier: BSD-3-Clause
//
// softmax (kernels/softmax/softmax.h) over the elements of a row that a mask leaves in.
//
// xmax and S are those of the elements left in, so their results are those of a shorter row. An
// element that is left out, or all of a row without any other, has the share 0:
// q = clamp(output_zero_point).
#pragma once

#include "kernels/normalize/normalize.h"
#include "op.h"

namespace fused_quant {

struct MaskedSoftmaxParams {
  NormalizeRows rows;
  NormalizeOutput output;
};

// Inputs: x (s8), E (s16 [256], constant), mask (s8, constant; not 0 = left out; its dimensions are
// those of x in affine_axes, outermost first, and it counts for every index of the others).
// Output: q (s8), as x is stored.
Status prepare_masked_softmax(const OpContext& context, void* params, Prepared* prepared);
void masked_softmax_s8_scalar(const Step& step);

}  // namespace fused_quant
