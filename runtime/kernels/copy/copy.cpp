// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/copy/copy.h"

#include <cstring>

#include "op_check.h"

namespace fused_quant {

Status prepare_copy(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::LayoutParams>();
  if (given == nullptr) return context.invalid("copy without LayoutParams");
  if (length_of(given->perm()) != 0) {
    return context.invalid("copy with a perm", length_of(given->perm()), 0);
  }
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, y, x.dtype, "output dtype"));
  if (x.count() != y.count()) {
    return context.invalid("number of output elements", y.count(), x.count());
  }
  new_params<CopyParams>(params, prepared)->bytes = tensor_bytes(x);
  return Status();
}

void copy_scalar(const Step& step) {
  std::memcpy(step.output<uint8_t>(0), step.input<uint8_t>(0), step.params<CopyParams>().bytes);
}

}  // namespace fused_quant
