// SPDX-License-Identifier: BSD-3-Clause
//
// slice: a strided copy, y[i_0, ..., i_n] = x[offset + sum i_d * stride_d], i_d below size_d.
//
// Slices with steps, selections, flips, expansions, repetitions, pixel shuffles and nearest
// upsampling by whole factors are all of this form. The sizes split the output's elements in order
// and need not be its dimensions. Elements are moved as they are; the output has the input's
// quantization.
#pragma once

#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

// Strides are kept modulo 2^32; so is every sum of them, and the true index fits.
struct SliceParams {
  StridedLoop<1> loop;
  uint32_t offset;
};

// Inputs: x. Output: y, of the same dtype. Every index that the loop reaches is in x.
Status prepare_slice(const OpContext& context, void* params, Prepared* prepared);
void slice_x8_scalar(const Step& step);   // elements of one byte
void slice_x16_scalar(const Step& step);  // elements of two bytes

}  // namespace fused_quant
