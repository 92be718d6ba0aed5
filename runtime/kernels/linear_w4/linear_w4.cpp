// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/linear_w4/linear_w4.h"

#include "op_check.h"

namespace fused_quant {

Status prepare_linear_w4(const OpContext& context, void* params, Prepared* prepared) {
  const auto* given = context.params<schema::DotParams>();
  if (given == nullptr) return context.invalid("linear_w4 without DotParams");
  FQ_RETURN_IF_ERROR(check_w4_operands(context, *given));
  auto* p = new_params<LinearW4Params>(params, prepared);
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
  FQ_RETURN_IF_ERROR(prepare_w4(context, *given, p->out_c, p->in_c, &p->output));
  prepared->scratch_bytes = p->in_c;
  return Status();
}

void linear_w4_s8_scalar(const Step& step) {
  const auto& p = step.params<LinearW4Params>();
  const uint8_t* packed = step.input<uint8_t>(1);
  const void* bias = p.output.has_bias ? step.input<void>(2) : nullptr;
  int8_t* weight = static_cast<int8_t*>(step.scratch);
  void* y = step.output<void>(0);
  for (uint32_t o = 0; o < p.out_c; ++o) {
    unpack_s4(packed, o * p.in_c, p.in_c, weight);
    const int8_t* x = step.input<int8_t>(0);
    for (uint32_t r = 0; r < p.rows; ++r, x += p.in_c) {
      p.output.store(y, r * p.out_c + o, o, bias, [=](uint32_t first, uint32_t length) {
        return dot(x + first, weight + first, length);
      });
    }
  }
}

}  // namespace fused_quant
