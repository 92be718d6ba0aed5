// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/requantize/requantize.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {

Status prepare_requantize(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("requantize without ElementwiseParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, x, schema::DType_s8, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, y, schema::DType_s8, "output dtype"));
  if (x.count() != y.count()) {
    return context.invalid("number of output elements", y.count(), x.count());
  }
  if (length_of(given->input_zero_point()) != 1) {
    return context.invalid("number of input zero points", length_of(given->input_zero_point()), 1);
  }
  FQ_RETURN_IF_ERROR(check_multipliers(context, given->multiplier(), given->shift(), 1));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->input_zero_point()->Get(0), x.dtype));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  if (length_of(given->negate()) > 1) {
    return context.invalid("number of signs", length_of(given->negate()), 1);
  }
  auto* p = new_params<RequantizeParams>(params, prepared);
  p->count = x.count();
  p->input_zero_point = given->input_zero_point()->Get(0);
  p->multiplier = given->multiplier()->Get(0);
  p->shift = given->shift()->Get(0);
  p->sign = is_negated(given->negate(), 0) ? -1 : 1;
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return Status();
}

void requantize_s8_scalar(const Step& step) {
  const auto& p = step.params<RequantizeParams>();
  const int8_t* x = step.input<int8_t>(0);
  int8_t* y = step.output<int8_t>(0);
  for (uint32_t i = 0; i < p.count; ++i) {
    // 255 * (2^31 - 1) >> 2 is below 2^38, so the sum cannot overflow int64.
    const int64_t term = rescale(x[i] - p.input_zero_point, p.multiplier, p.shift);
    const int64_t value = p.output_zero_point + p.sign * term;
    y[i] = static_cast<int8_t>(value < p.clamp_min ? p.clamp_min
                                                   : (value > p.clamp_max ? p.clamp_max : value));
  }
}

}  // namespace fused_quant
