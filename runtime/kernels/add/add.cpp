// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/add/add.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {
namespace {

Status check_terms(const OpContext& context, const schema::ElementwiseParams& given,
                   schema::DType dtype) {
  if (length_of(given.input_zero_point()) != 2) {
    return context.invalid("number of input zero points", length_of(given.input_zero_point()), 2);
  }
  if (length_of(given.negate()) != 0 && length_of(given.negate()) != 2) {
    return context.invalid("number of signs", length_of(given.negate()), 2);
  }
  FQ_RETURN_IF_ERROR(check_multipliers(context, given.multiplier(), given.shift(), 2));
  int64_t bound = 0;
  for (uint32_t k = 0; k < 2; ++k) {
    const int32_t zero_point = given.input_zero_point()->Get(k);
    FQ_RETURN_IF_ERROR(check_zero_point(context, zero_point, dtype));
    // R is monotonic in its argument and |R(-v)| <= R(v), since ties go up.
    bound +=
        rescale(max_distance(dtype, zero_point), given.multiplier()->Get(k), given.shift()->Get(k));
  }
  if (bound > INT32_MAX) return context.invalid("sum may exceed int32", bound, INT32_MAX);
  return check_multiplier(context, given.output_multiplier(), given.output_shift());
}

template <typename T>
void add(const Step& step) {
  const auto& p = step.params<AddParams>();
  const T* a = step.input<T>(0);
  const T* b = step.input<T>(1);
  T* y = step.output<T>(0);
  const uint32_t a_stride = p.loop.stride[0][p.loop.rank - 1];
  const uint32_t b_stride = p.loop.stride[1][p.loop.rank - 1];
  const auto term = [&p](T code, uint32_t k) {
    const int64_t t = rescale(code - p.zero_point[k], p.multiplier[k], p.shift[k]);
    return p.sign[k] * static_cast<int32_t>(t);
  };
  for_each_row(p.loop, [&](uint32_t to, const uint32_t(&from)[2], uint32_t length) {
    const T* a_row = a + from[0];
    const T* b_row = b + from[1];
    for (uint32_t i = 0; i < length; ++i) {
      const int32_t sum = term(a_row[i * a_stride], 0) + term(b_row[i * b_stride], 1);
      y[to + i] = static_cast<T>(requantize(sum, p.output_multiplier, p.output_shift,
                                            p.output_zero_point, p.clamp_min, p.clamp_max));
    }
  });
}

}  // namespace

Status prepare_add(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("add without ElementwiseParams");
  const TensorView a = context.input(0);
  const TensorView b = context.input(1);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, a, y.dtype, "first input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, b, y.dtype, "second input dtype"));
  FQ_RETURN_IF_ERROR(check_terms(context, *given, y.dtype));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  auto* p = new_params<AddParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_broadcast(context, a, b, y, &p->loop));
  for (uint32_t k = 0; k < 2; ++k) {
    p->zero_point[k] = given->input_zero_point()->Get(k);
    p->multiplier[k] = given->multiplier()->Get(k);
    p->shift[k] = given->shift()->Get(k);
    p->sign[k] = is_negated(given->negate(), k) ? -1 : 1;
  }
  p->output_multiplier = given->output_multiplier();
  p->output_shift = given->output_shift();
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return Status();
}

void add_s8_scalar(const Step& step) { add<int8_t>(step); }
void add_s16_scalar(const Step& step) { add<int16_t>(step); }

}  // namespace fused_quant
