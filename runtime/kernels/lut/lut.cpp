// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/lut/lut.h"

#include "op_check.h"

namespace fused_quant {
namespace {

constexpr uint32_t kEntries = 256;

}  // namespace

Status prepare_lut(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  if (context.params<schema::ElementwiseParams>() == nullptr) {
    return context.invalid("lut without ElementwiseParams");
  }
  const TensorView x = context.input(0);
  const TensorView table = context.input(1);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, x, schema::DType_s8, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, table, schema::DType_s8, "table dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, y, schema::DType_s8, "output dtype"));
  if (table.data == nullptr) return context.invalid("the table is no constant");
  if (table.count() != kEntries) return context.invalid("table length", table.count(), kEntries);
  if (x.count() != y.count()) {
    return context.invalid("number of output elements", y.count(), x.count());
  }
  new_params<LutParams>(params, prepared)->count = x.count();
  return Status();
}

void lut_s8_scalar(const Step& step) {
  const uint32_t count = step.params<LutParams>().count;
  const int8_t* x = step.input<int8_t>(0);
  const int8_t* table = step.input<int8_t>(1);
  int8_t* y = step.output<int8_t>(0);
  for (uint32_t i = 0; i < count; ++i) y[i] = table[x[i] + 128];
}

}  // namespace fused_quant
