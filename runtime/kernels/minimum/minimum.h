// SPDX-License-Identifier: BSD-3-Clause
//
// minimum: the smaller of two tensors with their own quantizations; see
// kernels/extremum/extremum.h.
#pragma once

#include "kernels/extremum/extremum.h"

namespace fused_quant {

// Inputs: a, b. Output: q. All s8, or all s16.
Status prepare_minimum(const OpContext& context, void* params, Prepared* prepared);
void minimum_s8_scalar(const Step& step);
void minimum_s16_scalar(const Step& step);

}  // namespace fused_quant
