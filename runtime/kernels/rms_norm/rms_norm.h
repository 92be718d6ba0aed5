// SPDX-License-Identifier: BSD-3-Clause
//
// rms_norm: each row divided by the root of its mean square, times weight.
// kernels/standardize/standardize.h has the formula and its ranges.
#pragma once

#include "op.h"

namespace fused_quant {

// Inputs: x (s8), weight (s16 or absent). Output: q (s8), as x is stored.
Status prepare_rms_norm(const OpContext& context, void* params, Prepared* prepared);
void rms_norm_s8_scalar(const Step& step);

}  // namespace fused_quant
