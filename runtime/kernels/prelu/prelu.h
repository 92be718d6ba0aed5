// SPDX-License-Identifier: BSD-3-Clause
//
// prelu with a slope for each channel, the innermost stored dimension, or one slope for all; also
// other functions that are linear on either side of zero, such as the magnitude.
//
//   d = x - input_zero_point
//   q = clamp(output_zero_point + R(sign_0 * d; multiplier_0, shift_0), lo, hi)             d >= 0
//   q = clamp(output_zero_point + R(sign_c * d; multiplier_c, shift_c), lo, hi)             d < 0
//
// Entry 0 of the vectors belongs to d >= 0, entry 1 + c to the slope of channel c: its sign and its
// magnitude. With one slope for all, two entries will do. |d| <= 65535.
#pragma once

#include "op.h"

namespace fused_quant {

struct PreluParams {
  uint32_t rows;
  uint32_t channels;
  int32_t input_zero_point;
  const int32_t* multiplier;  // 1 + channels
  const uint8_t* shift;
  const uint8_t* negate;
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: x (s8 or s16). Output: q (of the same dtype), as many elements.
Status prepare_prelu(const OpContext& context, void* params, Prepared* prepared);
void prelu_s8_scalar(const Step& step);
void prelu_s16_scalar(const Step& step);

}  // namespace fused_quant
