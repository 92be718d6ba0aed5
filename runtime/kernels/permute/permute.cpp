// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/permute/permute.h"

#include "op_check.h"

namespace fused_quant {
namespace {

template <typename T>
void permute(const Step& step) {
  const auto& p = step.params<PermuteParams>();
  const T* x = step.input<T>(0);
  T* y = step.output<T>(0);
  const uint32_t stride = p.loop.stride[0][p.loop.rank - 1];
  for_each_row(p.loop, [&](uint32_t to, const uint32_t(&from)[1], uint32_t length) {
    for (uint32_t i = 0; i < length; ++i) y[to + i] = x[from[0] + i * stride];
  });
}

}  // namespace

Status prepare_permute(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::LayoutParams>();
  if (given == nullptr) return context.invalid("permute without LayoutParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, y, x.dtype, "output dtype"));
  auto* p = new_params<PermuteParams>(params, prepared);
  return prepare_transpose(context, x, y, given->perm(), &p->loop);
}

void permute_x8_scalar(const Step& step) { permute<uint8_t>(step); }
void permute_x16_scalar(const Step& step) { permute<uint16_t>(step); }
void permute_x32_scalar(const Step& step) { permute<uint32_t>(step); }

}  // namespace fused_quant
