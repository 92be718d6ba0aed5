// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/linear/linear.h"

#include "op_check.h"

namespace fused_quant {

Status prepare_linear(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_dot_operands(context));
  const auto* given = context.params<schema::DotParams>();
  if (given == nullptr) return context.invalid("linear without DotParams");
  auto* p = new_params<LinearParams>(params, prepared);
  const TensorView weight = context.input(1);
  FQ_RETURN_IF_ERROR(check_rank(context, weight, 2, "weight rank"));
  p->out_c = weight.dim[0];
  p->in_c = weight.dim[1];
  const uint32_t x_count = context.input(0).count();
  const uint32_t y_count = context.output(0).count();
  if (x_count % p->in_c != 0) {
    return context.invalid("input elements are no multiple of the weight's columns", x_count,
                           p->in_c);
  }
  p->rows = x_count / p->in_c;
  const uint64_t expected = uint64_t{p->rows} * p->out_c;
  if (y_count != expected) {
    return context.invalid("number of output elements", y_count, static_cast<int64_t>(expected));
  }
  FQ_RETURN_IF_ERROR(prepare_dot(context, *given, p->out_c, &p->output));
  p->has_bias = context.has_input(2);
  return Status();
}

namespace {

template <typename T>
void linear(const Step& step) {
  const auto& p = step.params<LinearParams>();
  const T* x = step.input<T>(0);
  const int8_t* weight = step.input<int8_t>(1);
  const Acc<T>* bias = p.has_bias ? step.input<Acc<T>>(2) : nullptr;
  void* y = step.output<void>(0);
  uint32_t index = 0;
  for (uint32_t r = 0; r < p.rows; ++r, x += p.in_c) {
    const int8_t* w = weight;
    for (uint32_t o = 0; o < p.out_c; ++o, ++index, w += p.in_c) {
      p.output.store<T>(y, index, start<T>(bias, o) + dot(x, w, p.in_c), o);
    }
  }
}

}  // namespace

void linear_s8_scalar(const Step& step) { linear<int8_t>(step); }
void linear_s16_scalar(const Step& step) { linear<int16_t>(step); }

}  // namespace fused_quant
