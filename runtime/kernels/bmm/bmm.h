// SPDX-License-Identifier: BSD-3-Clause
//
// bmm: products of matrices, one of each operand per batch.
//
//   acc[i][j] = sum over k of (a[i][k] - zp_a) * (b[k][j] - zp_b)
//   q[i][j]   = clamp(output_zero_point + R(acc[i][j]; multiplier, shift), clamp_min, clamp_max)
//   or, for a float output, y[i][j] = float(acc[i][j]) * real_scale
//
// An operand with a batch of 1 meets every matrix of the other. Preparation refuses a K for which
// K * max|a - zp_a| * max|b - zp_b| exceeds 2^31 - 1 of s8, or 2^47 - 1 of s16 (zero points 0).
#pragma once

#include "op.h"

namespace fused_quant {

struct BmmParams {
  uint32_t batch;
  uint32_t m;
  uint32_t k;
  uint32_t n;
  uint32_t step_a;  // elements from one batch to the next; 0 for a batch of 1
  uint32_t step_b;
  int32_t zero_point_a;
  int32_t zero_point_b;
  int32_t multiplier;
  uint32_t shift;
  int32_t output_zero_point;
  int32_t clamp_min;
  int32_t clamp_max;
  bool is_real;
  float real_scale;
};

// Inputs: a (s8 or s16 [batch or 1, m, k]), b (as a, [batch or 1, k, n]). Output: q (as a, or f32;
// [batch, m, n]), where batch is the larger of the two.
Status prepare_bmm(const OpContext& context, void* params, Prepared* prepared);
void bmm_s8_scalar(const Step& step);
void bmm_s16_scalar(const Step& step);

}  // namespace fused_quant
