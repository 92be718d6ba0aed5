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
  bool mask_keeps;
};

// Inputs: x (s8), mask (s8 of a constant or b8 of a tensor), E (s16 [256], constant). Where the
// mask is not 0, with mask_keeps where it is 0, an element is left out. Its dimensions are those of
// x in affine_axes, outermost first, beside any of size one; it counts for every index of the
// others. Output: q (s8), as x is stored.
Status prepare_masked_softmax(const OpContext& context, void* params, Prepared* prepared);
void masked_softmax_s8_scalar(const Step& step);

}  // namespace fused_quant
