// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/hardswish/hardswish.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {

Status prepare_hardswish(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("hardswish without ElementwiseParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, x, schema::DType_s16, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, y, schema::DType_s16, "output dtype"));
  if (x.count() != y.count()) {
    return context.invalid("number of output elements", y.count(), x.count());
  }
  if (length_of(given->input_zero_point()) != 1) {
    return context.invalid("number of input zero points", length_of(given->input_zero_point()), 1);
  }
  const int32_t negated = given->input_zero_point()->Get(0);
  if (negated < -32768 || negated > -1) return context.invalid("offset of hardswish", negated, -1);
  if (given->output_zero_point() != 0) {
    return context.invalid("zero point of 16-bit codes", given->output_zero_point(), 0);
  }
  FQ_RETURN_IF_ERROR(check_multiplier(context, given->output_multiplier(), given->output_shift()));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  auto* p = new_params<HardswishParams>(params, prepared);
  p->count = x.count();
  p->offset = -negated;
  p->multiplier = given->output_multiplier();
  p->shift = given->output_shift();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return Status();
}

void hardswish_s16_scalar(const Step& step) {
  const auto& p = step.params<HardswishParams>();
  const int16_t* x = step.input<int16_t>(0);
  int16_t* y = step.output<int16_t>(0);
  for (uint32_t i = 0; i < p.count; ++i) {
    const int32_t product = x[i] * clamp(x[i] + p.offset, 0, 2 * p.offset);
    y[i] = static_cast<int16_t>(
        requantize(product, p.multiplier, p.shift, 0, p.clamp_min, p.clamp_max));
  }
}

}  // namespace fused_quant
