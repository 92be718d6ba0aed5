// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/dequantize/dequantize.h"

#include "numerics/float32.h"
#include "op_check.h"

namespace fused_quant {
namespace {

template <typename T>
void dequantize(const Step& step) {
  const auto& p = step.params<DequantizeParams>();
  const T* x = step.input<T>(0);
  float* y = step.output<float>(0);
  const uint32_t stride = p.loop.stride[0][p.loop.rank - 1];
  for_each_row(p.loop, [&](uint32_t to, const uint32_t(&from)[1], uint32_t length) {
    const T* x_row = x + from[0];
    float* y_row = y + to;
    for (uint32_t i = 0; i < length; ++i) {
      // Integers below 2^24 convert exactly in any rounding mode.
      const float difference = static_cast<float>(x_row[i * stride] - p.zero_point);
      y_row[i] = float_from_bits(multiply_f32(float_bits(difference), p.scale));
    }
  });
}

}  // namespace

Status prepare_dequantize(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::CastParams>();
  if (given == nullptr) return context.invalid("dequantize without CastParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, x, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, y, schema::DType_f32, "output dtype"));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->zero_point(), x.dtype));
  FQ_RETURN_IF_ERROR(check_scale(context, given->scale()));
  auto* p = new_params<DequantizeParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_transpose(context, x, y, given->perm(), &p->loop));
  p->scale = float_bits(given->scale());
  p->zero_point = given->zero_point();
  return Status();
}

void dequantize_s8_scalar(const Step& step) { dequantize<int8_t>(step); }
void dequantize_s16_scalar(const Step& step) { dequantize<int16_t>(step); }

}  // namespace fused_quant
