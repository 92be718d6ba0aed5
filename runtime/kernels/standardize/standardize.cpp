// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/standardize/standardize.h"

#include "kernels/standardize/rsqrt.h"
#include "kernels/standardize_wide/standardize_wide.h"
#include "numerics/bits.h"
#include "op_check.h"

namespace fused_quant {
namespace {

constexpr uint32_t kLongest = 4096;
constexpr uint32_t kLongestWide = 16384;
constexpr int32_t kFraction = 7;
constexpr int32_t kLargestEpsilon = 1 << 29;
constexpr int32_t kLargestBias = 1 << 30;
constexpr int32_t kUnitWeight = 32767;

// multiplier / 2^shift is 2^7 / N to the last bit of the multiplier, so that |mu| <= 2^14.
Status check_mean(const OpContext& context, int32_t multiplier, uint32_t shift, uint32_t length) {
  if (shift < 23 || shift > 36) return context.invalid("shift of the mean", shift, 23);
  const int64_t error = int64_t{multiplier} * length - (int64_t{1} << (kFraction + shift));
  if (multiplier < 0 || error > length || error < -int64_t{length}) {
    return context.invalid("multiplier of the mean", multiplier, length);
  }
  return Status();
}

Status check_weight(const OpContext& context, uint32_t index, uint32_t length) {
  if (!context.has_input(index)) return Status();
  FQ_RETURN_IF_ERROR(check_constant(context, index, schema::DType_s16, length));
  const auto* weight = static_cast<const int16_t*>(context.input(index).data);
  for (uint32_t i = 0; i < length; ++i) {
    if (weight[i] < -kUnitWeight) return context.invalid("weight", weight[i], -kUnitWeight);
  }
  return Status();
}

Status check_bias(const OpContext& context, uint32_t index, uint32_t length) {
  if (!context.has_input(index)) return Status();
  FQ_RETURN_IF_ERROR(check_constant(context, index, schema::DType_s32, length));
  const auto* bias = static_cast<const int32_t*>(context.input(index).data);
  for (uint32_t i = 0; i < length; ++i) {
    if (bias[i] < -kLargestBias || bias[i] > kLargestBias) {
      return context.invalid("bias", bias[i], kLargestBias);
    }
  }
  return Status();
}

uint32_t square_shift(uint32_t length) {
  uint32_t shift = 1;
  while (uint32_t{1} << shift < length) ++shift;
  return shift;
}

template <typename T>
int32_t mean_of(const StandardizeParams& p, const T* x) {
  int32_t sum = 0;  // at most 4096 * 128
  for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) { sum += x[i]; });
  return static_cast<int32_t>(rescale(sum, p.mean_multiplier, p.mean_shift));
}

template <typename T>
uint32_t square_sum(const StandardizeParams& p, const T* x, int32_t mean) {
  const int32_t rounding = 1 << (p.square_shift - 1);
  int32_t sum = p.epsilon;
  for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) {
    const int32_t d = x[i] * (1 << kFraction) - mean;
    sum += (d * d + rounding) >> p.square_shift;
  });
  return static_cast<uint32_t>(sum);
}

}  // namespace

Status prepare_standardize(const OpContext& context, bool centred, void* params,
                           Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, centred ? 3 : 2, 1));
  const auto* given = context.params<schema::NormalizeParams>();
  if (given == nullptr) return context.invalid("normalization without NormalizeParams");
  auto* p = new_params<StandardizeParams>(params, prepared);
  const bool wide = context.output(0).dtype == schema::DType_s16;
  FQ_RETURN_IF_ERROR(prepare_rows(context, *given, wide ? kLongestWide : kLongest, &p->rows));
  FQ_RETURN_IF_ERROR(prepare_normalize_output(context, *given, &p->output));
  FQ_RETURN_IF_ERROR(check_weight(context, 1, p->rows.affine));
  if (wide) return prepare_standardize_wide(context, *given, p);
  FQ_RETURN_IF_ERROR(check_bias(context, 2, p->rows.affine));
  p->epsilon = given->epsilon();
  if (p->epsilon < 1 || p->epsilon > kLargestEpsilon) {
    return context.invalid("epsilon", p->epsilon, kLargestEpsilon);
  }
  p->square_shift = square_shift(p->rows.length);
  if (centred) {
    p->mean_multiplier = given->input_multiplier();
    p->mean_shift = given->input_shift();
    return check_mean(context, p->mean_multiplier, p->mean_shift, p->rows.length);
  }
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->input_zero_point(), schema::DType_s8));
  p->center = given->input_zero_point() * (1 << kFraction);
  return Status();
}

void standardize_s8(const Step& step, bool centred) {
  const auto& p = step.params<StandardizeParams>();
  const bool has_weight = step.num_inputs > 1 && step.operand(1) != nullptr;
  const bool has_bias = step.num_inputs > 2 && step.operand(2) != nullptr;
  const int16_t* weight = has_weight ? step.input<int16_t>(1) : nullptr;
  const int32_t* bias = has_bias ? step.input<int32_t>(2) : nullptr;
  for_each_pair(p.rows.starts, [&](uint32_t start, uint32_t first) {
    const int8_t* x = step.input<int8_t>(0) + start;
    int8_t* y = step.output<int8_t>(0) + start;
    const int32_t mean = centred ? mean_of(p, x) : p.center;
    const uint32_t sum = square_sum(p, x, mean);
    const uint32_t h = (leading_zeros(sum) - 1) & ~1u;
    const int32_t r = reciprocal_root((sum << h) >> 15);
    const uint32_t v = 19 - h / 2;
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t at) {
      const int32_t d = x[i] * (1 << kFraction) - mean;
      const int32_t u = clamp((d * r + (1 << (v - 1))) >> v, -32768, 32767);
      const int32_t scaled = u * (has_weight ? weight[first + at] : kUnitWeight);
      y[i] = static_cast<int8_t>(p.output(scaled + (has_bias ? bias[first + at] : 0)));
    });
  });
}

}  // namespace fused_quant
