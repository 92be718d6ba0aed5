// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/reduce/reduce.h"

#include "op_check.h"

namespace fused_quant {

Status read_axes(const OpContext& context, const flatbuffers::Vector<uint8_t>* axes, uint32_t rank,
                 uint32_t* mask) {
  *mask = 0;
  int64_t last = -1;
  for (uint32_t i = 0; i < length_of(axes); ++i) {
    const uint32_t axis = axes->Get(i);
    if (axis >= rank) return context.invalid("axis out of range", axis, rank);
    if (axis <= last) return context.invalid("axes are not ascending", axis, last + 1);
    last = axis;
    *mask |= 1u << axis;
  }
  return Status();
}

Status check_reduced_shape(const OpContext& context, const TensorView& x, const TensorView& y,
                           uint32_t mask) {
  uint32_t at = 0;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (x.dim[d] == 1 || (mask >> d & 1u) != 0) continue;
    while (at < y.rank && y.dim[at] == 1) ++at;
    const uint32_t size = at < y.rank ? y.dim[at] : 1;
    if (size != x.dim[d]) return context.invalid("output size", size, x.dim[d]);
    ++at;
  }
  while (at < y.rank && y.dim[at] == 1) ++at;
  if (at != y.rank) return context.invalid("output has too many sizes", y.rank, at);
  return Status();
}

ReduceLoops reduce_loops(const TensorView& x, uint32_t mask) {
  ReduceLoops loops;
  uint32_t stride = x.count();
  for (uint32_t d = 0; d < x.rank; ++d) {
    stride /= x.dim[d];
    ((mask >> d & 1u) != 0 ? loops.reduced : loops.kept).append(x.dim[d], {stride});
  }
  loops.kept.finish();
  loops.reduced.finish();
  return loops;
}

Status prepare_reduce_extreme(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::ReduceParams>();
  if (given == nullptr) return context.invalid("extremum without ReduceParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  uint32_t mask = 0;
  FQ_RETURN_IF_ERROR(read_axes(context, given->axes(), x.rank, &mask));
  FQ_RETURN_IF_ERROR(check_reduced_shape(context, x, y, mask));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->input_zero_point(), x.dtype));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_multiplier(context, given->multiplier(), given->shift()));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  auto* p = new_params<ReduceExtremeParams>(params, prepared);
  p->loops = reduce_loops(x, mask);
  p->input_zero_point = given->input_zero_point();
  p->output_zero_point = given->output_zero_point();
  p->multiplier = given->multiplier();
  p->shift = given->shift();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return Status();
}

}  // namespace fused_quant
