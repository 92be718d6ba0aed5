// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/masked_softmax/masked_softmax.h"

#include "kernels/softmax/share.h"
#include "op_check.h"

namespace fused_quant {
namespace {

constexpr uint32_t kLongest = 65536;
constexpr uint32_t kEntries = 256;

Status check_mask(const OpContext& context, uint32_t length) {
  const TensorView mask = context.input(1);
  if (mask.data != nullptr) return check_constant(context, 1, schema::DType_s8, length);
  FQ_RETURN_IF_ERROR(check_dtype(context, mask, schema::DType_b8, "mask dtype"));
  if (mask.count() != length) return context.invalid("elements of the mask", mask.count(), length);
  return Status();
}

}  // namespace

Status prepare_masked_softmax(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 3, 3, 1));
  const auto* given = context.params<schema::NormalizeParams>();
  if (given == nullptr) return context.invalid("masked_softmax without NormalizeParams");
  auto* p = new_params<MaskedSoftmaxParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_rows(context, *given, kLongest, &p->rows));
  FQ_RETURN_IF_ERROR(prepare_normalize_output(context, *given, &p->output));
  FQ_RETURN_IF_ERROR(check_mask(context, p->rows.affine));
  p->mask_keeps = given->mask_keeps();
  FQ_RETURN_IF_ERROR(check_constant(context, 2, schema::DType_s16, kEntries));
  const auto* table = static_cast<const int16_t*>(context.input(2).data);
  return check_decay<int16_t>(context, table, kEntries, 32767);
}

void masked_softmax_s8_scalar(const Step& step) {
  const auto& p = step.params<MaskedSoftmaxParams>();
  const int16_t* table = step.input<int16_t>(2);
  for_each_pair(p.rows.starts, [&](uint32_t start, uint32_t mask_start) {
    const int8_t* x = step.input<int8_t>(0) + start;
    const uint8_t* mask = step.input<uint8_t>(1) + mask_start;
    const auto counts = [&](uint32_t j) { return (mask[j] != 0) == p.mask_keeps; };
    int8_t* y = step.output<int8_t>(0) + start;
    int32_t largest = -128;
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t j) {
      if (counts(j) && x[i] > largest) largest = x[i];
    });
    uint32_t sum = 0;
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t j) {
      if (counts(j)) sum += static_cast<uint32_t>(table[largest - x[i]]);
    });
    const Share share(sum == 0 ? 1 : sum);  // 0 if every element is left out: no share is asked for
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t j) {
      const int32_t portion = counts(j) ? share(table[largest - x[i]]) : 0;
      y[i] = static_cast<int8_t>(p.output(portion));
    });
  });
}

}  // namespace fused_quant
