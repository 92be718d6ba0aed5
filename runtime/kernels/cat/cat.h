// SPDX-License-Identifier: BSD-3-Clause
//
// cat: tensors one behind the other along one dimension, each brought to the output's quantization.
//
//   q = clamp(output_zero_point + R(x_k - input_zero_point_k; multiplier_k, shift_k), lo, hi)
//
// The inputs have the output's sizes but for the stored dimension `axis`, where the output has
// their sum. An input whose quantization is the output's is copied.
#pragma once

#include "op.h"

namespace fused_quant {

constexpr uint32_t kMaxCatInputs = 1024;

struct CatParams {
  const flatbuffers::Vector<int32_t>* input_zero_point;  // one per input, in the payload
  const flatbuffers::Vector<int32_t>* multiplier;
  const flatbuffers::Vector<uint8_t>* shift;
  uint32_t axis;
  uint32_t outer;  // elements of the dimensions before the axis
  uint32_t row;    // elements of the output from the axis on
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: x_0, x_1, ..., at most kMaxCatInputs. Output: q. All s8 or all s16.
Status prepare_cat(const OpContext& context, void* params, Prepared* prepared);
void cat_s8_scalar(const Step& step);
void cat_s16_scalar(const Step& step);

}  // namespace fused_quant
