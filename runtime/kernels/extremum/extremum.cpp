// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/extremum/extremum.h"

#include "op_check.h"

namespace fused_quant {

Status prepare_extremum(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("maximum or minimum without ElementwiseParams");
  if (length_of(given->input_zero_point()) != 2) {
    return context.invalid("number of input zero points", length_of(given->input_zero_point()), 2);
  }
  FQ_RETURN_IF_ERROR(check_multipliers(context, given->multiplier(), given->shift(), 2));
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  auto* p = new_params<ExtremumParams>(params, prepared);
  for (uint32_t k = 0; k < 2; ++k) {
    FQ_RETURN_IF_ERROR(check_dtype(context, context.input(k), y.dtype, "input dtype"));
    p->zero_point[k] = given->input_zero_point()->Get(k);
    FQ_RETURN_IF_ERROR(check_zero_point(context, p->zero_point[k], y.dtype));
    p->multiplier[k] = given->multiplier()->Get(k);
    p->shift[k] = given->shift()->Get(k);
  }
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return prepare_broadcast(context, context.input(0), context.input(1), y, &p->loop);
}

}  // namespace fused_quant
