// SPDX-License-Identifier: BSD-3-Clause
//
// layer_norm: each row less its mean, divided by its standard deviation, times weight, plus bias.
// kernels/standardize/standardize.h has the formula and its ranges.
#pragma once

#include "op.h"

namespace fused_quant {

// Inputs: x (s8 or s16), weight (s16 or absent), bias (s32, of s16 codes s64, or absent). Output:
// q, as x is stored.
Status prepare_layer_norm(const OpContext& context, void* params, Prepared* prepared);
void layer_norm_s8_scalar(const Step& step);
void layer_norm_s16_scalar(const Step& step);

}  // namespace fused_quant
