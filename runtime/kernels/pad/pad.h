// SPDX-License-Identifier: BSD-3-Clause
//
// pad: the input inside a larger (or, with a negative amount, cropped) output.
//
//   q[i] = value                                                      outside of the input
//   q[i] = clamp(output_zero_point + R(x[i - before] - input_zero_point; multiplier, shift), lo,
//   hi)
#pragma once

#include "kernels/regrid/regrid.h"
#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

struct PadParams {
  StridedLoop<2> loop;  // over what the output shows of the input: strides of x, then of y
  bool shows_input;
  uint32_t count;     // of the output
  uint32_t first[2];  // element of x and of y where the loop begins
  int32_t value;
  Regrid grid;
};

// Inputs: x (s8 or s16). Output: q of the same dtype and rank, and any sizes.
Status prepare_pad(const OpContext& context, void* params, Prepared* prepared);
void pad_s8_scalar(const Step& step);
void pad_s16_scalar(const Step& step);

}  // namespace fused_quant
