// SPDX-License-Identifier: BSD-3-Clause
//
// mean: the average over some stored dimensions, rounded once.
//
//   q = clamp(output_zero_point + R(sum over axes of (x - input_zero_point); multiplier, shift))
//
// The number of elements is part of the multiplier. Sizes of one may be kept or dropped.
#pragma once

#include "op.h"

namespace fused_quant {

// The input's dimensions without sizes of one and with neighbours of the same kind merged: kept and
// reduced ones alternate, so there are at most three of each. Unused outer entries have size 1 and
// stride 0.
struct MeanParams {
  uint32_t kept[3];         // outermost first, without `inner`
  uint32_t kept_stride[3];  // in elements
  uint32_t reduced[3];
  uint32_t reduced_stride[3];
  uint32_t inner;  // the innermost dimension if it is kept, else 1
  uint32_t terms;  // elements of one sum
  int32_t input_zero_point;
  int32_t output_zero_point;
  int32_t multiplier;
  uint32_t shift;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Input: x (s8 or s16). Output: q (of the same dtype). Scratch: `inner` accumulators.
Status prepare_mean(const OpContext& context, void* params, Prepared* prepared);
void mean_s8_scalar(const Step& step);
void mean_s16_scalar(const Step& step);

}  // namespace fused_quant
