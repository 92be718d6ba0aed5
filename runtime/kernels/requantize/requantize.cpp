// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/requantize/requantize.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {
namespace {

bool is_code(const TensorView& view) {
  return view.dtype == schema::DType_s8 || view.dtype == schema::DType_u8 ||
         view.dtype == schema::DType_s16;
}

template <typename X, typename Y>
void requantize_all(const Step& step) {
  const auto& p = step.params<RequantizeParams>();
  const X* x = step.input<X>(0);
  Y* y = step.output<Y>(0);
  for (uint32_t i = 0; i < p.count; ++i) {
    // 65535 * (2^31 - 1) >> 2 is below 2^45, so the sum cannot overflow int64.
    const int64_t term = rescale(x[i] - p.input_zero_point, p.multiplier, p.shift);
    const int64_t value = p.output_zero_point + p.sign * term;
    y[i] = static_cast<Y>(value < p.clamp_min ? p.clamp_min
                                              : (value > p.clamp_max ? p.clamp_max : value));
  }
}

template <typename Y>
void requantize_from_any(const Step& step) {
  switch (step.params<RequantizeParams>().input_dtype) {
    case schema::DType_u8:
      return requantize_all<uint8_t, Y>(step);
    case schema::DType_s16:
      return requantize_all<int16_t, Y>(step);
    default:  // s8, as prepared
      return requantize_all<int8_t, Y>(step);
  }
}

}  // namespace

Status prepare_requantize(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("requantize without ElementwiseParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  if (!is_code(x)) return context.invalid("input dtype", x.dtype, schema::DType_s8);
  if (!is_code(y)) return context.invalid("output dtype", y.dtype, schema::DType_s8);
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
  p->input_dtype = x.dtype;
  p->input_zero_point = given->input_zero_point()->Get(0);
  p->multiplier = given->multiplier()->Get(0);
  p->shift = given->shift()->Get(0);
  p->sign = is_negated(given->negate(), 0) ? -1 : 1;
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return Status();
}

void requantize_s8_scalar(const Step& step) { requantize_from_any<int8_t>(step); }
void requantize_u8_scalar(const Step& step) { requantize_from_any<uint8_t>(step); }
void requantize_s16_scalar(const Step& step) { requantize_from_any<int16_t>(step); }

}  // namespace fused_quant
