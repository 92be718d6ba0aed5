// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/softmax/softmax.h"

#include "kernels/softmax/share.h"
#include "numerics/bits.h"
#include "op_check.h"

namespace fused_quant {
namespace {

constexpr uint32_t kLongest = 65536;
constexpr uint32_t kEntries = 256;

// e / sum in units of 2^-15, for a row whose exponentials (2^30 is 1) add up to `sum`, which is
// 2^30 to 2^46.
struct WideShare {
  uint32_t reciprocal;  // 2^30..2^31
  uint32_t shift;       // 46..62

  explicit WideShare(uint64_t sum) {
    const uint32_t excess = 33 - leading_zeros(sum);
    reciprocal = static_cast<uint32_t>((uint64_t{1} << 61) / (sum >> excess));
    shift = 46 + excess;
  }

  // The product is at most 2^61.
  int32_t operator()(uint32_t e) const {
    const uint64_t product = uint64_t{e} * reciprocal;
    return static_cast<int32_t>((product + (uint64_t{1} << (shift - 1))) >> shift);
  }
};

}  // namespace

Status prepare_softmax(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  const auto* given = context.params<schema::NormalizeParams>();
  if (given == nullptr) return context.invalid("softmax without NormalizeParams");
  auto* p = new_params<SoftmaxParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_rows(context, *given, kLongest, &p->rows));
  FQ_RETURN_IF_ERROR(prepare_normalize_output(context, *given, &p->output));
  if (context.output(0).dtype == schema::DType_s16) return check_split_decay(context, 1);
  FQ_RETURN_IF_ERROR(check_constant(context, 1, schema::DType_s16, kEntries));
  const auto* table = static_cast<const int16_t*>(context.input(1).data);
  return check_decay<int16_t>(context, table, kEntries, 32767);
}

void softmax_s8_scalar(const Step& step) {
  const auto& p = step.params<SoftmaxParams>();
  const int16_t* table = step.input<int16_t>(1);
  for_each_pair(p.rows.starts, [&](uint32_t start, uint32_t) {
    const int8_t* x = step.input<int8_t>(0) + start;
    int8_t* y = step.output<int8_t>(0) + start;
    const int32_t largest = largest_code(p.rows, x);
    uint32_t sum = 0;
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) {
      sum += static_cast<uint32_t>(table[largest - x[i]]);
    });
    const Share share(sum);
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) {
      y[i] = static_cast<int8_t>(p.output(share(table[largest - x[i]])));
    });
  });
}

void softmax_s16_scalar(const Step& step) {
  const auto& p = step.params<SoftmaxParams>();
  const int32_t* table = step.input<int32_t>(1);
  for_each_pair(p.rows.starts, [&](uint32_t start, uint32_t) {
    const int16_t* x = step.input<int16_t>(0) + start;
    int16_t* y = step.output<int16_t>(0) + start;
    const int32_t largest = largest_code(p.rows, x);
    const auto exponential = [&](uint32_t i) {
      return split_decay(table, static_cast<uint32_t>(largest - x[i]));
    };
    uint64_t sum = 0;
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) { sum += exponential(i); });
    const WideShare share(sum);
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) {
      y[i] = static_cast<int16_t>(p.output(share(exponential(i))));
    });
  });
}

}  // namespace fused_quant
