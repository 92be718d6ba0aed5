// SPDX-License-Identifier: BSD-3-Clause
//
// rms_norm: each row divided by the root of its mean square, times weight.
// kernels/standardize/standardize.h has the formula and its ranges.
#pragma once

#include "op.h"

namespace fused_quant {

// Inputs: x (s8 or s16), weight (s16 or absent). Output: q, as x is stored.
Status prepare_rms_norm(const OpContext& context, void* params, Prepared* prepared);
void rms_norm_s8_scalar(const Step& step);
void rms_norm_s16_scalar(const Step& step);

}  // namespace fused_quant
