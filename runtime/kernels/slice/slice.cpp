// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/slice/slice.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// `size` splits `count` elements, and every index is below `length`. No product exceeds int64: a
// size is at most `count` < 2^31, and one dimension may not reach further than x is long.
Status check_reach(const OpContext& context, const schema::SliceParams& given, uint32_t count,
                   uint32_t length) {
  const uint32_t rank = length_of(given.size());
  if (rank > kMaxRank) return context.invalid("number of sizes", rank, kMaxRank);
  if (length_of(given.stride()) != rank) {
    return context.invalid("number of strides", length_of(given.stride()), rank);
  }
  uint64_t elements = 1;
  int64_t lowest = given.offset();
  int64_t highest = given.offset();
  for (uint32_t d = 0; d < rank; ++d) {
    const uint32_t size = given.size()->Get(d);
    if (size == 0 || size > count) return context.invalid("size", size, count);
    elements *= size;
    if (elements > count) break;
    const int64_t reach = int64_t{size - 1} * given.stride()->Get(d);
    if (reach > length || reach < -int64_t{length}) {
      return context.invalid("stride reaches beyond the input", reach, length);
    }
    (reach < 0 ? lowest : highest) += reach;
  }
  if (elements != count) {
    return context.invalid("product of the sizes", static_cast<int64_t>(elements), count);
  }
  if (lowest < 0) return context.invalid("lowest index", lowest, 0);
  return highest < length ? Status() : context.invalid("highest index", highest, length - 1);
}

template <typename T>
void copy_strided(const Step& step) {
  const auto& p = step.params<SliceParams>();
  const T* x = step.input<T>(0);
  T* y = step.output<T>(0);
  const uint32_t stride = p.loop.stride[0][p.loop.rank - 1];
  for_each_row(p.loop, [&](uint32_t to, const uint32_t(&from)[1], uint32_t length) {
    const uint32_t start = p.offset + from[0];
    for (uint32_t i = 0; i < length; ++i) y[to + i] = x[start + i * stride];
  });
}

}  // namespace

Status prepare_slice(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::SliceParams>();
  if (given == nullptr) return context.invalid("slice without SliceParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, y, x.dtype, "output dtype"));
  FQ_RETURN_IF_ERROR(check_reach(context, *given, y.count(), x.count()));
  auto* p = new_params<SliceParams>(params, prepared);
  p->offset = given->offset();
  for (uint32_t d = 0; d < length_of(given->size()); ++d) {
    p->loop.append(given->size()->Get(d), {static_cast<uint32_t>(given->stride()->Get(d))});
  }
  p->loop.finish();
  return Status();
}

void slice_x8_scalar(const Step& step) { copy_strided<uint8_t>(step); }
void slice_x16_scalar(const Step& step) { copy_strided<uint16_t>(step); }

}  // namespace fused_quant
