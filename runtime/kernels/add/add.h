// SPDX-License-Identifier: BSD-3-Clause
//
// add: sum or difference of two tensors with their own quantizations.
//
//   t_k = sign_k * R(x_k - zero_point_k; multiplier_k, shift_k)        for a and b
//   q   = clamp(output_zero_point + R(t_a + t_b; output_multiplier, output_shift), lo, hi)
//
// Shapes broadcast right-aligned in stored order. Three tensors of the same number of elements
// always go element by element. |t_a + t_b| <= 2^31 - 1 for every code, which prepare verifies.
#pragma once

#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

struct AddParams {
  StridedLoop<2> loop;
  int32_t zero_point[2];
  int32_t multiplier[2];
  uint32_t shift[2];
  int32_t sign[2];  // 1 or -1
  int32_t output_multiplier;
  uint32_t output_shift;
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Inputs: a, b. Output: q. All s8 or all s16.
Status prepare_add(const OpContext& context, void* params, Prepared* prepared);
void add_s8_scalar(const Step& step);
void add_s16_scalar(const Step& step);

}  // namespace fused_quant
