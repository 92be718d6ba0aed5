// SPDX-License-Identifier: BSD-3-Clause
//
// amin: the smallest element over some stored dimensions, on another grid.
//
//   q = clamp(output_zero_point + R(min(x) - input_zero_point; multiplier, shift))
//
// Equal grids have R = identity. Sizes of one may be kept or dropped. |x - input_zero_point| <=
// 65535.
#pragma once

#include "op.h"

namespace fused_quant {

// Input: x (s8 or s16). Output: q (of the same dtype).
Status prepare_amin(const OpContext& context, void* params, Prepared* prepared);
void amin_s8_scalar(const Step& step);
void amin_s16_scalar(const Step& step);

}  // namespace fused_quant
