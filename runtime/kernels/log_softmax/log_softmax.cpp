// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/log_softmax/log_softmax.h"

#include "numerics/bits.h"
#include "op_check.h"

namespace fused_quant {
namespace {

constexpr uint32_t kLongest = 65536;
constexpr uint32_t kExponentials = 256;
constexpr uint32_t kLogarithms = 129;
constexpr int32_t kLargestTerm = 1 << 29;

// l above. L[128] <= 2^26 and k <= 16 keep it below 2^31.
int32_t logarithm(uint64_t sum, const int32_t* table) {
  const int32_t exponent = 33 - static_cast<int32_t>(leading_zeros(sum));
  const uint32_t mantissa = static_cast<uint32_t>(sum >> exponent);
  const int32_t* entry = table + ((mantissa >> 23) - 128);
  const int64_t fraction = mantissa & ((1u << 23) - 1);
  const int64_t between = ((entry[1] - entry[0]) * fraction + (1 << 22)) >> 23;
  return exponent * table[kLogarithms - 1] + entry[0] + static_cast<int32_t>(between);
}

uint32_t exponential(const int32_t* table, int32_t d, const int8_t*) {
  return static_cast<uint32_t>(table[d]);
}

uint32_t exponential(const int32_t* table, int32_t d, const int16_t*) {
  return split_decay(table, static_cast<uint32_t>(d));
}

Status check_exponentials(const OpContext& context) {
  if (context.output(0).dtype == schema::DType_s16) return check_split_decay(context, 1);
  FQ_RETURN_IF_ERROR(check_constant(context, 1, schema::DType_s32, kExponentials));
  const auto* exponentials = static_cast<const int32_t*>(context.input(1).data);
  return check_decay<int32_t>(context, exponentials, kExponentials, 1 << 30);
}

Status check_tables(const OpContext& context) {
  FQ_RETURN_IF_ERROR(check_exponentials(context));
  FQ_RETURN_IF_ERROR(check_constant(context, 2, schema::DType_s32, kLogarithms));
  const auto* logarithms = static_cast<const int32_t*>(context.input(2).data);
  if (logarithms[0] != 0) return context.invalid("first logarithm", logarithms[0], 0);
  for (uint32_t i = 1; i < kLogarithms; ++i) {
    if (logarithms[i] < logarithms[i - 1]) return context.invalid("logarithms decrease", i);
  }
  const int32_t last = logarithms[kLogarithms - 1];
  return last <= 1 << 26 ? Status() : context.invalid("last logarithm", last, 1 << 26);
}

template <typename T>
void log_softmax(const Step& step) {
  const auto& p = step.params<LogSoftmaxParams>();
  const int32_t* exponentials = step.input<int32_t>(1);
  for_each_pair(p.rows.starts, [&](uint32_t start, uint32_t) {
    const T* x = step.input<T>(0) + start;
    T* y = step.output<T>(0) + start;
    const int32_t largest = largest_code(p.rows, x);
    uint64_t sum = 0;
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) {
      sum += exponential(exponentials, largest - x[i], x);
    });
    const int32_t log_sum = logarithm(sum, step.input<int32_t>(2));
    const int64_t level = rescale(log_sum, p.sum_multiplier, p.sum_shift);
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) {
      const int64_t below = rescale(largest - x[i], p.input_multiplier, p.input_shift);
      y[i] = static_cast<T>(p.output(static_cast<int32_t>(-(below + level))));
    });
  });
}

}  // namespace

Status prepare_log_softmax(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 3, 3, 1));
  const auto* given = context.params<schema::NormalizeParams>();
  if (given == nullptr) return context.invalid("log_softmax without NormalizeParams");
  auto* p = new_params<LogSoftmaxParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_rows(context, *given, kLongest, &p->rows));
  FQ_RETURN_IF_ERROR(prepare_normalize_output(context, *given, &p->output));
  FQ_RETURN_IF_ERROR(check_multiplier(context, given->input_multiplier(), given->input_shift()));
  FQ_RETURN_IF_ERROR(check_multiplier(context, given->sum_multiplier(), given->sum_shift()));
  FQ_RETURN_IF_ERROR(check_tables(context));
  p->input_multiplier = given->input_multiplier();
  p->input_shift = given->input_shift();
  p->sum_multiplier = given->sum_multiplier();
  p->sum_shift = given->sum_shift();
  const int32_t* table = static_cast<const int32_t*>(context.input(2).data);
  const int32_t longest = logarithm(uint64_t{kLongest} << 30, table);
  const int32_t farthest = context.output(0).dtype == schema::DType_s16 ? 65535 : 255;
  const int64_t largest[] = {rescale(farthest, p->input_multiplier, p->input_shift),
                             rescale(longest, p->sum_multiplier, p->sum_shift)};
  for (const int64_t term : largest) {
    if (term > kLargestTerm) return context.invalid("term of log_softmax", term, kLargestTerm);
  }
  return Status();
}

void log_softmax_s8_scalar(const Step& step) { log_softmax<int8_t>(step); }
void log_softmax_s16_scalar(const Step& step) { log_softmax<int16_t>(step); }

}  // namespace fused_quant
