// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/gather/gather.h"

#include <cstring>

#include "kernels/regrid/regrid.h"
#include "op_check.h"

namespace fused_quant {
namespace {

// Output sizes: those of x, the axis replaced by the sizes of index.
Status check_shape(const OpContext& context, const TensorView& x, const TensorView& index,
                   const TensorView& y, uint32_t axis) {
  const uint32_t rank = x.rank - 1u + index.rank;
  if (rank != y.rank) return context.invalid("output rank", y.rank, rank);
  for (uint32_t d = 0; d < rank; ++d) {
    const bool picked = d >= axis && d < axis + index.rank;
    const uint32_t expected =
        d < axis ? x.dim[d] : (picked ? index.dim[d - axis] : x.dim[d + 1 - index.rank]);
    if (y.dim[d] != expected) return context.invalid("output size", y.dim[d], expected);
  }
  return Status();
}

template <typename T, typename Index>
void pick(const Step& step) {
  const auto& p = step.params<GatherParams>();
  const T* x = step.input<T>(0);
  const Index* index = step.input<Index>(1);
  T* y = step.output<T>(0);
  const Index last = static_cast<Index>(p.size - 1);
  for (uint32_t o = 0; o < p.outer; ++o, x += p.size * p.inner) {
    for (uint32_t j = 0; j < p.picks; ++j, y += p.inner) {
      const Index at = index[j] < 0 ? 0 : (index[j] > last ? last : index[j]);
      std::memcpy(y, x + static_cast<uint32_t>(at) * p.inner, p.inner * sizeof(T));
    }
  }
}

template <typename T>
void pick_all(const Step& step) {
  if (step.params<GatherParams>().is_wide) {
    pick<T, int64_t>(step);
  } else {
    pick<T, int32_t>(step);
  }
}

}  // namespace

Status prepare_gather(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  const auto* given = context.params<schema::GatherParams>();
  if (given == nullptr) return context.invalid("gather without GatherParams");
  const TensorView x = context.input(0);
  const TensorView index = context.input(1);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, y, x.dtype, "output dtype"));
  if (index.dtype != schema::DType_s32 && index.dtype != schema::DType_s64) {
    return context.invalid("index dtype", index.dtype, schema::DType_s64);
  }
  if (given->axis() >= x.rank) return context.invalid("axis", given->axis(), x.rank);
  FQ_RETURN_IF_ERROR(check_shape(context, x, index, y, given->axis()));
  auto* p = new_params<GatherParams>(params, prepared);
  const AxisSplit split = split_at(x, given->axis());
  p->outer = split.outer;
  p->size = split.size;
  p->inner = split.inner;
  p->picks = index.count();
  p->is_wide = index.dtype == schema::DType_s64;
  return Status();
}

void gather_x8_scalar(const Step& step) { pick_all<uint8_t>(step); }
void gather_x16_scalar(const Step& step) { pick_all<uint16_t>(step); }

}  // namespace fused_quant
