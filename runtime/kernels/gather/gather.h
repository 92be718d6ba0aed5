// SPDX-License-Identifier: BSD-3-Clause
//
// gather: positions of one dimension, picked by an index tensor.
//
//   y[o, j, i] = x[o, min(max(index[j], 0), size - 1), i]
//
// The stored dimension `axis` of x, of `size` positions, is replaced by the dimensions of index. An
// index outside of [0, size) is brought to the nearer end: a kernel cannot fail, and nothing
// outside of x is read. Elements are moved as they are; the output has the input's quantization.
#pragma once

#include "op.h"

namespace fused_quant {

struct GatherParams {
  uint32_t outer;  // elements of the dimensions before the axis
  uint32_t size;
  uint32_t inner;  // elements of the dimensions behind it
  uint32_t picks;  // elements of index
  bool is_wide;    // index is s64
};

// Inputs: x, index (s32 or s64). Output: y, of the dtype of x.
Status prepare_gather(const OpContext& context, void* params, Prepared* prepared);
void gather_x8_scalar(const Step& step);   // elements of one byte
void gather_x16_scalar(const Step& step);  // elements of two bytes

}  // namespace fused_quant
