// SPDX-License-Identifier: BSD-3-Clause
//
// hardswish of 16-bit codes, whose bends lie between the knots of a table.
//
//   q = clamp(R(x * min(max(x + h, 0), 2 * h); output_multiplier, output_shift))
//
// h = -input_zero_point, 1..32768, stands for the real number 3. |product| <= 32768 * 65535 < 2^31.
#pragma once

#include "op.h"

namespace fused_quant {

struct HardswishParams {
  uint32_t count;
  int32_t offset;
  int32_t multiplier;
  uint32_t shift;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Input: x (s16). Output: q (s16), as many elements. ElementwiseParams; output_zero_point is 0.
Status prepare_hardswish(const OpContext& context, void* params, Prepared* prepared);
void hardswish_s16_scalar(const Step& step);

}  // namespace fused_quant
