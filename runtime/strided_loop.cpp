// SPDX-License-Identifier: BSD-3-Clause

#include "strided_loop.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// Dimension `i` of `view`, counted as if it had `rank` dimensions with ones in front.
uint32_t aligned_dim(const TensorView& view, uint32_t rank, uint32_t i) {
  const uint32_t missing = rank - view.rank;
  return i < missing ? 1 : view.dim[i - missing];
}

// Element stride of each dimension of `view` aligned to `rank`; 0 where it is broadcast.
void aligned_strides(const TensorView& view, uint32_t rank, uint32_t (&strides)[kMaxRank]) {
  uint32_t step = 1;
  for (uint32_t i = rank; i > 0; --i) {
    const uint32_t size = aligned_dim(view, rank, i - 1);
    strides[i - 1] = size == 1 ? 0 : step;
    step *= size;
  }
}

}  // namespace

Status prepare_transpose(const OpContext& context, const TensorView& input,
                         const TensorView& output, const flatbuffers::Vector<uint8_t>* perm,
                         StridedLoop<1>* loop) {
  if (length_of(perm) == 0) {
    if (input.count() != output.count()) {
      return context.invalid("number of output elements", output.count(), input.count());
    }
    loop->append(input.count(), {1});
    loop->finish();
    return Status();
  }
  const uint32_t rank = input.rank;
  if (perm->size() != rank) return context.invalid("length of perm", perm->size(), rank);
  if (output.rank != rank) return context.invalid("output rank", output.rank, rank);
  uint32_t stride[kMaxRank] = {};
  uint32_t step = 1;
  for (uint32_t i = rank; i > 0; --i) {
    stride[i - 1] = step;
    step *= input.dim[i - 1];
  }
  uint32_t seen = 0;
  for (uint32_t i = 0; i < rank; ++i) {
    const uint32_t from = perm->Get(i);
    if (from >= rank || (seen >> from & 1u) != 0) {
      return context.invalid("perm is no permutation", from, rank);
    }
    seen |= 1u << from;
    if (output.dim[i] != input.dim[from]) {
      return context.invalid("output size", output.dim[i], input.dim[from]);
    }
    loop->append(output.dim[i], {stride[from]});
  }
  loop->finish();
  return Status();
}

Status prepare_broadcast(const OpContext& context, const TensorView& a, const TensorView& b,
                         const TensorView& y, StridedLoop<2>* loop) {
  if (a.count() == y.count() && b.count() == y.count()) {
    loop->append(y.count(), {1, 1});
    loop->finish();
    return Status();
  }
  uint32_t rank = a.rank > b.rank ? a.rank : b.rank;
  rank = y.rank > rank ? y.rank : rank;
  uint32_t a_stride[kMaxRank] = {};
  uint32_t b_stride[kMaxRank] = {};
  aligned_strides(a, rank, a_stride);
  aligned_strides(b, rank, b_stride);
  for (uint32_t i = 0; i < rank; ++i) {
    const uint32_t a_dim = aligned_dim(a, rank, i);
    const uint32_t b_dim = aligned_dim(b, rank, i);
    const uint32_t y_dim = aligned_dim(y, rank, i);
    if (a_dim != 1 && b_dim != 1 && a_dim != b_dim) {
      return context.invalid("shapes do not broadcast", b_dim, a_dim);
    }
    const uint32_t expected = a_dim != 1 ? a_dim : b_dim;
    if (y_dim != expected) return context.invalid("output size", y_dim, expected);
    loop->append(y_dim, {a_stride[i], b_stride[i]});
  }
  loop->finish();
  return Status();
}

}  // namespace fused_quant
