// SPDX-License-Identifier: BSD-3-Clause
//
// requantize: codes of one quantization to codes of another, or a stand-alone clamp.
//
//   q = clamp(output_zero_point + sign * R(x - input_zero_point; multiplier, shift), lo, hi)
#pragma once

#include "op.h"

namespace fused_quant {

struct RequantizeParams {
  uint32_t count;
  schema::DType input_dtype;
  int32_t input_zero_point;
  int32_t multiplier;
  uint32_t shift;
  int32_t sign;  // 1 or -1
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: x (s8, u8 or s16). Output: q (s8, u8 or s16), as many elements.
Status prepare_requantize(const OpContext& context, void* params, Prepared* prepared);
void requantize_s8_scalar(const Step& step);
void requantize_u8_scalar(const Step& step);
void requantize_s16_scalar(const Step& step);

}  // namespace fused_quant
