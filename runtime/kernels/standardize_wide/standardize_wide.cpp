// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/standardize_wide/standardize_wide.h"

#include "numerics/bits.h"
#include "op_check.h"

namespace fused_quant {
namespace {

constexpr int64_t kLargestEpsilon = int64_t{1} << 60;
constexpr int64_t kLargestBias = int64_t{1} << 46;
constexpr int32_t kUnitWeight = 32767;

// The factor of one row: u = (d * reciprocal + 2^(shift - 1)) >> shift, d = N * x - sum.
struct RowScale {
  int64_t sum;  // 0 of rms_norm
  int64_t reciprocal;
  uint32_t shift;

  RowScale(const StandardizeParams& p, const int16_t* x, bool centred) : sum(0) {
    int64_t squares = 0;
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t) {
      sum += x[i];
      squares += int32_t{x[i]} * x[i];
    });
    if (!centred) sum = 0;
    const int64_t spread = int64_t{p.rows.length} * squares - sum * sum + p.wide_epsilon;
    const uint64_t w = static_cast<uint64_t>(spread);
    const uint32_t h = (leading_zeros(w) - 2) & ~1u;
    const uint64_t inverse = (uint64_t{1} << 61) / integer_root(w << h);
    reciprocal = static_cast<int64_t>(inverse < 0x7fffffffu ? inverse : 0x7fffffffu);
    shift = 45 - h / 2;
  }
};

Status check_wide_bias(const OpContext& context, uint32_t index, uint32_t length) {
  if (!context.has_input(index)) return Status();
  FQ_RETURN_IF_ERROR(check_constant(context, index, schema::DType_s64, length));
  const auto* bias = static_cast<const int64_t*>(context.input(index).data);
  for (uint32_t i = 0; i < length; ++i) {
    if (bias[i] < -kLargestBias || bias[i] > kLargestBias) {
      return context.invalid("bias", bias[i], kLargestBias);
    }
  }
  return Status();
}

}  // namespace

Status prepare_standardize_wide(const OpContext& context, const schema::NormalizeParams& given,
                                StandardizeParams* p) {
  FQ_RETURN_IF_ERROR(check_wide_bias(context, 2, p->rows.affine));
  const int32_t zero_points[] = {given.input_zero_point(), given.output_zero_point()};
  for (const int32_t zero_point : zero_points) {
    if (zero_point != 0) return context.invalid("zero point of 16-bit codes", zero_point, 0);
  }
  p->wide_epsilon = given.wide_epsilon();
  if (p->wide_epsilon < 1 || p->wide_epsilon > kLargestEpsilon) {
    return context.invalid("epsilon", p->wide_epsilon, kLargestEpsilon);
  }
  return Status();
}

void standardize_s16(const Step& step, bool centred) {
  const auto& p = step.params<StandardizeParams>();
  const bool has_weight = step.num_inputs > 1 && step.operand(1) != nullptr;
  const bool has_bias = step.num_inputs > 2 && step.operand(2) != nullptr;
  const int16_t* weight = has_weight ? step.input<int16_t>(1) : nullptr;
  const int64_t* bias = has_bias ? step.input<int64_t>(2) : nullptr;
  for_each_pair(p.rows.starts, [&](uint32_t start, uint32_t first) {
    const int16_t* x = step.input<int16_t>(0) + start;
    int16_t* y = step.output<int16_t>(0) + start;
    const RowScale row(p, x, centred);
    const int64_t half = int64_t{1} << (row.shift - 1);
    for_each_pair(p.rows.elements, [&](uint32_t i, uint32_t at) {
      const int64_t d = int64_t{p.rows.length} * x[i] - row.sum;
      const int64_t u = (d * row.reciprocal + half) >> row.shift;
      const int64_t scaled = u * (has_weight ? weight[first + at] : kUnitWeight);
      y[i] = static_cast<int16_t>(requantize_wide(scaled + (has_bias ? bias[first + at] : 0),
                                                  p.output.multiplier, p.output.shift,
                                                  p.output.clamp_min, p.output.clamp_max));
    });
  });
}

}  // namespace fused_quant
