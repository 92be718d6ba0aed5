// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/cat/cat.h"

#include "kernels/regrid/regrid.h"
#include "op_check.h"

namespace fused_quant {
namespace {

Regrid regrid_of(const CatParams& p, uint32_t k) {
  return Regrid{p.input_zero_point->Get(k), p.multiplier->Get(k), p.shift->Get(k),
                p.output_zero_point,        p.clamp_min,          p.clamp_max};
}

// One input: its dtype and parameters, and every size but that of the axis.
Status check_input(const OpContext& context, const CatParams& p, uint32_t k, const TensorView& y) {
  if (!context.has_input(k)) return context.invalid("required input is absent", k);
  const TensorView x = context.input(k);
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  FQ_RETURN_IF_ERROR(check_rank(context, x, y.rank, "input rank"));
  for (uint32_t d = 0; d < y.rank; ++d) {
    if (d != p.axis && x.dim[d] != y.dim[d]) {
      return context.invalid("input size", x.dim[d], y.dim[d]);
    }
  }
  return check_regrid(context, regrid_of(p, k), y.dtype);
}

template <typename T>
void cat(const Step& step) {
  const auto& p = step.params<CatParams>();
  T* y = step.output<T>(0);
  for (uint32_t k = 0; k < step.num_inputs; ++k) {
    const Regrid grid = regrid_of(p, k);
    const T* x = step.input<T>(k);
    const uint32_t length = step.operand(k)->count() / p.outer;
    for (uint32_t i = 0; i < p.outer; ++i) grid.row(x + i * length, y + i * p.row, length);
    y += length;
  }
}

}  // namespace

Status prepare_cat(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, kMaxCatInputs, 1));
  const auto* given = context.params<schema::CatParams>();
  if (given == nullptr) return context.invalid("cat without CatParams");
  const uint32_t count = context.num_inputs();
  if (length_of(given->input_zero_point()) != count) {
    return context.invalid("number of input zero points", length_of(given->input_zero_point()),
                           count);
  }
  FQ_RETURN_IF_ERROR(check_multipliers(context, given->multiplier(), given->shift(), count));
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  if (given->axis() >= y.rank) return context.invalid("axis", given->axis(), y.rank);
  auto* p = new_params<CatParams>(params, prepared);
  p->input_zero_point = given->input_zero_point();
  p->multiplier = given->multiplier();
  p->shift = given->shift();
  p->axis = given->axis();
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  const AxisSplit split = split_at(y, p->axis);
  p->outer = split.outer;
  p->row = split.size * split.inner;
  uint64_t joined = 0;
  for (uint32_t k = 0; k < count; ++k) {
    FQ_RETURN_IF_ERROR(check_input(context, *p, k, y));
    joined += context.input(k).dim[p->axis];
  }
  if (joined != split.size) {
    return context.invalid("sizes along the axis", static_cast<int64_t>(joined), split.size);
  }
  return Status();
}

void cat_s8_scalar(const Step& step) { cat<int8_t>(step); }
void cat_s16_scalar(const Step& step) { cat<int16_t>(step); }

}  // namespace fused_quant
