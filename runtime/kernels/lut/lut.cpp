// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/lut/lut.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {
namespace {

constexpr uint32_t kEntries = 256;
constexpr uint32_t kKnots = 513;  // one more than segments of 128 codes

}  // namespace

Status prepare_lut(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("lut without ElementwiseParams");
  const TensorView x = context.input(0);
  const TensorView table = context.input(1);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, table, y.dtype, "table dtype"));
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  if (table.data == nullptr) return context.invalid("the table is no constant");
  const bool wide = y.dtype == schema::DType_s16;
  const uint32_t length = wide ? kKnots : kEntries;
  if (table.count() != length) return context.invalid("table length", table.count(), length);
  if (x.count() != y.count()) {
    return context.invalid("number of output elements", y.count(), x.count());
  }
  auto* p = new_params<LutParams>(params, prepared);
  p->count = x.count();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return wide ? check_clamp(context, p->clamp_min, p->clamp_max, y.dtype) : Status();
}

void lut_s8_scalar(const Step& step) {
  const uint32_t count = step.params<LutParams>().count;
  const int8_t* x = step.input<int8_t>(0);
  const int8_t* table = step.input<int8_t>(1);
  int8_t* y = step.output<int8_t>(0);
  for (uint32_t i = 0; i < count; ++i) y[i] = table[x[i] + 128];
}

void lut_s16_scalar(const Step& step) {
  const auto& p = step.params<LutParams>();
  const int16_t* x = step.input<int16_t>(0);
  const int16_t* table = step.input<int16_t>(1);
  int16_t* y = step.output<int16_t>(0);
  for (uint32_t i = 0; i < p.count; ++i) {
    const int16_t* knot = table + ((x[i] + 32768) >> 7);
    const int32_t between = (knot[1] - knot[0]) * (x[i] & 127);
    const int32_t value = (knot[0] * 128 + between + 64) >> 7;
    y[i] = static_cast<int16_t>(clamp(value, p.clamp_min, p.clamp_max));
  }
}

}  // namespace fused_quant
