// SPDX-License-Identifier: BSD-3-Clause
//
// maximum: the larger of two tensors with their own quantizations; see kernels/extremum/extremum.h.
#pragma once

#include "kernels/extremum/extremum.h"

namespace fused_quant {

// Inputs: a, b. Output: q. All s8, or all s16.
Status prepare_maximum(const OpContext& context, void* params, Prepared* prepared);
void maximum_s8_scalar(const Step& step);
void maximum_s16_scalar(const Step& step);

}  // namespace fused_quant
