// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/quantize/quantize.h"

#include "numerics/float32.h"
#include "op_check.h"

namespace fused_quant {
namespace {

template <typename T>
void quantize(const Step& step) {
  const auto& p = step.params<QuantizeParams>();
  const float* x = step.input<float>(0);
  T* y = step.output<T>(0);
  const uint32_t stride = p.loop.stride[0][p.loop.rank - 1];
  const int32_t lo = p.clamp_min - p.zero_point;
  const int32_t hi = p.clamp_max - p.zero_point;
  for_each_row(p.loop, [&](uint32_t to, const uint32_t(&from)[1], uint32_t length) {
    const float* x_row = x + from[0];
    T* y_row = y + to;
    for (uint32_t i = 0; i < length; ++i) {
      const uint32_t steps = multiply_f32(float_bits(x_row[i * stride]), p.inverse_scale);
      y_row[i] = static_cast<T>(p.zero_point + round_to_range(steps, lo, hi));
    }
  });
}

}  // namespace

Status prepare_quantize(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::CastParams>();
  if (given == nullptr) return context.invalid("quantize without CastParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, x, schema::DType_f32, "input dtype"));
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  FQ_RETURN_IF_ERROR(check_scale(context, given->inverse_scale()));
  auto* p = new_params<QuantizeParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_transpose(context, x, y, given->perm(), &p->loop));
  p->inverse_scale = float_bits(given->inverse_scale());
  p->zero_point = given->zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return Status();
}

void quantize_s8_scalar(const Step& step) { quantize<int8_t>(step); }
void quantize_s16_scalar(const Step& step) { quantize<int16_t>(step); }

}  // namespace fused_quant
