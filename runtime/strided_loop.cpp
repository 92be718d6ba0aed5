// SPDX-License-Identifier: BSD-3-Clause

#include "strided_loop.h"

#include "op_check.h"

namespace fused_quant {

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

}  // namespace fused_quant
