// SPDX-License-Identifier: BSD-3-Clause
//
// Walking a dense output in order while N inputs are read with strides: transposes (N = 1) and
// broadcasting (N = 2). Built by prepare functions, walked by kernels.
#pragma once

#include <cstdint>

#include "op.h"
#include "tensor_view.h"

namespace fused_quant {

// dim[0] is outermost; rank >= 1. Strides count elements. Offsets stay below kMaxTensorBytes.
template <uint32_t N>
struct StridedLoop {
  uint32_t rank = 0;
  uint32_t dim[kMaxRank] = {};
  uint32_t stride[N][kMaxRank] = {};

  // Appends the next inner dimension. Sizes of one vanish, and a dimension that continues the one
  // outside it for every input is merged with it, so that rows are as long as possible.
  void append(uint32_t size, const uint32_t (&strides)[N]) {
    if (size == 1) return;
    bool mergeable = rank > 0;
    for (uint32_t k = 0; k < N && mergeable; ++k) {
      mergeable = uint64_t{strides[k]} * size == stride[k][rank - 1];
    }
    const uint32_t at = mergeable ? rank - 1 : rank++;
    dim[at] = mergeable ? dim[at] * size : size;
    for (uint32_t k = 0; k < N; ++k) stride[k][at] = strides[k];
  }

  // Call after the last append(): a loop over nothing but sizes of one has one row of one element.
  void finish() {
    if (rank != 0) return;
    rank = 1;
    dim[0] = 1;
  }
};

// Calls row(output_offset, input_offsets, length) for each innermost row, in output order. Element
// i of the row is read at input_offsets[k] + i * loop.stride[k][loop.rank - 1].
template <uint32_t N, typename Row>
void for_each_row(const StridedLoop<N>& loop, Row row) {
  const uint32_t inner = loop.rank - 1;
  const uint32_t length = loop.dim[inner];
  uint32_t index[kMaxRank] = {};
  uint32_t offset[N] = {};
  uint32_t output = 0;
  for (;;) {
    row(output, offset, length);
    output += length;
    uint32_t d = inner;
    for (;;) {
      if (d == 0) return;
      --d;
      for (uint32_t k = 0; k < N; ++k) offset[k] += loop.stride[k][d];
      if (++index[d] < loop.dim[d]) break;
      for (uint32_t k = 0; k < N; ++k) offset[k] -= loop.stride[k][d] * loop.dim[d];
      index[d] = 0;
    }
  }
}

// The loop of a transpose: stored output dimension i is stored input dimension perm[i]. An empty
// permutation means the same elements in the same order; then only the counts must agree.
Status prepare_transpose(const OpContext& context, const TensorView& input,
                         const TensorView& output, const flatbuffers::Vector<uint8_t>* perm,
                         StridedLoop<1>* loop);

// The loop of an element-wise operator with two inputs, whose shapes broadcast right-aligned in
// stored order. Three tensors of the same number of elements always go element by element.
Status prepare_broadcast(const OpContext& context, const TensorView& a, const TensorView& b,
                         const TensorView& y, StridedLoop<2>* loop);

}  // namespace fused_quant
