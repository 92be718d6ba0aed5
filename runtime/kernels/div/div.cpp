// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/div/div.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {
namespace {

constexpr int32_t kInt32Min = -0x7fffffff - 1;
constexpr int32_t kInt32Max = 0x7fffffff;
// From this shift on |n * m| < 2^47 makes every quotient less than one half.
constexpr uint32_t kVanishingShift = 48;

int32_t saturate(int64_t value) {
  return value < kInt32Min ? kInt32Min
                           : (value > kInt32Max ? kInt32Max : static_cast<int32_t>(value));
}

// floor(value / divisor), divisor > 0. |value| < 2^62.
int64_t floor_divide(int64_t value, int64_t divisor) {
  const int64_t quotient = value / divisor;
  return quotient - (quotient * divisor > value ? 1 : 0);
}

// Dividing by 2^s and then by d, both times to the floor, is dividing once by d * 2^s.
int32_t quotient(const DivParams& p, int32_t n, int32_t d) {
  if (d == 0) return n == 0 ? 0 : (n < 0 ? kInt32Min : kInt32Max);
  if (d < 0) {
    n = -n;
    d = -d;
  }
  const int64_t product = int64_t{n} * p.multiplier;
  switch (p.rounding) {
    case schema::Rounding_floor:
      return saturate(floor_divide(product >> p.shift, d));
    case schema::Rounding_trunc:
      return saturate(n < 0 ? -((-product >> p.shift) / d) : (product >> p.shift) / d);
    case schema::Rounding_nearest:
      break;
  }
  if (p.shift >= kVanishingShift) return 0;
  // d < 2^16 and s <= 47: the rounding term is below 2^62.
  return saturate(floor_divide((product + (int64_t{d} << (p.shift - 1))) >> p.shift, d));
}

template <typename T>
void divide(const Step& step) {
  const auto& p = step.params<DivParams>();
  const T* a = step.input<T>(0);
  const T* b = step.input<T>(1);
  T* y = step.output<T>(0);
  const uint32_t a_stride = p.loop.stride[0][p.loop.rank - 1];
  const uint32_t b_stride = p.loop.stride[1][p.loop.rank - 1];
  for_each_row(p.loop, [&](uint32_t to, const uint32_t(&from)[2], uint32_t length) {
    for (uint32_t i = 0; i < length; ++i) {
      const int32_t t = quotient(p, a[from[0] + i * a_stride] - p.zero_point[0],
                                 b[from[1] + i * b_stride] - p.zero_point[1]);
      int64_t code = t;
      if (p.rounding != schema::Rounding_nearest) {
        code = rescale(t, p.output_multiplier, p.output_shift);
      }
      code += p.output_zero_point;
      code = code < p.clamp_min ? p.clamp_min : (code > p.clamp_max ? p.clamp_max : code);
      y[to + i] = static_cast<T>(code);
    }
  });
}

}  // namespace

Status prepare_div(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("div without ElementwiseParams");
  if (length_of(given->input_zero_point()) != 2) {
    return context.invalid("number of input zero points", length_of(given->input_zero_point()), 2);
  }
  FQ_RETURN_IF_ERROR(check_multipliers(context, given->multiplier(), given->shift(), 1));
  if (given->rounding() > schema::Rounding_MAX) {
    return context.invalid("rounding", given->rounding(), schema::Rounding_MAX);
  }
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_multiplier(context, given->output_multiplier(), given->output_shift()));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  auto* p = new_params<DivParams>(params, prepared);
  for (uint32_t k = 0; k < 2; ++k) {
    FQ_RETURN_IF_ERROR(check_dtype(context, context.input(k), y.dtype, "input dtype"));
    p->zero_point[k] = given->input_zero_point()->Get(k);
    FQ_RETURN_IF_ERROR(check_zero_point(context, p->zero_point[k], y.dtype));
  }
  p->multiplier = given->multiplier()->Get(0);
  p->shift = given->shift()->Get(0);
  p->rounding = given->rounding();
  p->output_multiplier = given->output_multiplier();
  p->output_shift = given->output_shift();
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return prepare_broadcast(context, context.input(0), context.input(1), y, &p->loop);
}

void div_s8_scalar(const Step& step) { divide<int8_t>(step); }
void div_s16_scalar(const Step& step) { divide<int16_t>(step); }

}  // namespace fused_quant
