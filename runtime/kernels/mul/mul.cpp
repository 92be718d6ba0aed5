// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/mul/mul.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {
namespace {

template <typename T>
void mul(const Step& step) {
  const auto& p = step.params<MulParams>();
  const T* a = step.input<T>(0);
  const T* b = step.input<T>(1);
  T* y = step.output<T>(0);
  const uint32_t a_stride = p.loop.stride[0][p.loop.rank - 1];
  const uint32_t b_stride = p.loop.stride[1][p.loop.rank - 1];
  for_each_row(p.loop, [&](uint32_t to, const uint32_t(&from)[2], uint32_t length) {
    const T* a_row = a + from[0];
    const T* b_row = b + from[1];
    for (uint32_t i = 0; i < length; ++i) {
      const int32_t product =
          (a_row[i * a_stride] - p.zero_point[0]) * (b_row[i * b_stride] - p.zero_point[1]);
      y[to + i] = static_cast<T>(requantize(product, p.multiplier, p.shift, p.output_zero_point,
                                            p.clamp_min, p.clamp_max));
    }
  });
}

}  // namespace

Status prepare_mul(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("mul without ElementwiseParams");
  if (length_of(given->input_zero_point()) != 2) {
    return context.invalid("number of input zero points", length_of(given->input_zero_point()), 2);
  }
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_multiplier(context, given->output_multiplier(), given->output_shift()));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  auto* p = new_params<MulParams>(params, prepared);
  int64_t largest = 1;
  for (uint32_t k = 0; k < 2; ++k) {
    FQ_RETURN_IF_ERROR(check_dtype(context, context.input(k), y.dtype, "input dtype"));
    p->zero_point[k] = given->input_zero_point()->Get(k);
    FQ_RETURN_IF_ERROR(check_zero_point(context, p->zero_point[k], y.dtype));
    largest *= max_distance(y.dtype, p->zero_point[k]);
  }
  if (largest > INT32_MAX) return context.invalid("product may exceed int32", largest, INT32_MAX);
  p->multiplier = given->output_multiplier();
  p->shift = given->output_shift();
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return prepare_broadcast(context, context.input(0), context.input(1), y, &p->loop);
}

void mul_s8_scalar(const Step& step) { mul<int8_t>(step); }
void mul_s16_scalar(const Step& step) { mul<int16_t>(step); }

}  // namespace fused_quant
