// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/bmm/bmm.h"

#include "numerics/accumulator.h"
#include "numerics/float32.h"
#include "op_check.h"

namespace fused_quant {
namespace {

// The largest K of s16, whose zero points are 0: K * 2^30 < 2^47.
constexpr uint32_t kMaxDepthS16 = 131071;

Status prepare_shape(const OpContext& context, BmmParams* p) {
  const TensorView a = context.input(0);
  const TensorView b = context.input(1);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, a, "first operand's dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, b, a.dtype, "second operand's dtype"));
  FQ_RETURN_IF_ERROR(check_rank(context, a, 3, "first operand's rank"));
  FQ_RETURN_IF_ERROR(check_rank(context, b, 3, "second operand's rank"));
  FQ_RETURN_IF_ERROR(check_rank(context, y, 3, "output rank"));
  p->batch = a.dim[0] > b.dim[0] ? a.dim[0] : b.dim[0];
  p->m = a.dim[1];
  p->k = a.dim[2];
  p->n = b.dim[2];
  if (a.dim[0] != p->batch && a.dim[0] != 1) return context.invalid("batch", a.dim[0], p->batch);
  if (b.dim[0] != p->batch && b.dim[0] != 1) return context.invalid("batch", b.dim[0], p->batch);
  if (b.dim[1] != p->k) return context.invalid("second operand's rows", b.dim[1], p->k);
  if (y.dim[0] != p->batch) return context.invalid("output batch", y.dim[0], p->batch);
  if (y.dim[1] != p->m) return context.invalid("output rows", y.dim[1], p->m);
  if (y.dim[2] != p->n) return context.invalid("output columns", y.dim[2], p->n);
  p->step_a = a.dim[0] == 1 ? 0 : p->m * p->k;
  p->step_b = b.dim[0] == 1 ? 0 : p->k * p->n;
  return Status();
}

Status check_sums(const OpContext& context, const BmmParams& p) {
  uint32_t limit = kMaxDepthS16;
  if (context.input(0).dtype == schema::DType_s8) {
    limit = 0x7fffffffu / static_cast<uint32_t>(max_distance_s8(p.zero_point_a) *
                                                max_distance_s8(p.zero_point_b));
  }
  if (p.k <= limit) return Status();
  return context.invalid("sum of so many products may exceed the accumulator", p.k, limit);
}

Status prepare_output(const OpContext& context, const schema::ElementwiseParams& given,
                      BmmParams* p) {
  const TensorView y = context.output(0);
  p->is_real = y.dtype == schema::DType_f32;
  p->real_scale = given.real_scale();
  if (p->is_real) return check_scale(context, p->real_scale);
  FQ_RETURN_IF_ERROR(check_dtype(context, y, context.input(0).dtype, "output dtype"));
  p->multiplier = given.output_multiplier();
  p->shift = given.output_shift();
  p->output_zero_point = given.output_zero_point();
  p->clamp_min = given.clamp_min();
  p->clamp_max = given.clamp_max();
  FQ_RETURN_IF_ERROR(check_multiplier(context, p->multiplier, given.output_shift()));
  FQ_RETURN_IF_ERROR(check_factor_zero_point(context, p->output_zero_point, y.dtype));
  return check_clamp(context, p->clamp_min, p->clamp_max, y.dtype);
}

// One row of the first operand against column j of the second.
template <typename T>
Acc<T> row_by_column(const BmmParams& p, const T* a, const T* b, uint32_t j) {
  Acc<T> acc = 0;
  for (uint32_t k = 0; k < p.k; ++k) {
    acc += (a[k] - p.zero_point_a) * (b[k * p.n + j] - p.zero_point_b);
  }
  return acc;
}

template <typename T>
void bmm(const Step& step) {
  const auto& p = step.params<BmmParams>();
  const T* a = step.input<T>(0);
  const T* b = step.input<T>(1);
  T* q = step.output<T>(0);
  float* y = step.output<float>(0);
  uint32_t index = 0;
  for (uint32_t batch = 0; batch < p.batch; ++batch, a += p.step_a, b += p.step_b) {
    for (uint32_t i = 0; i < p.m; ++i) {
      for (uint32_t j = 0; j < p.n; ++j, ++index) {
        const Acc<T> acc = row_by_column(p, a + i * p.k, b, j);
        if (p.is_real) {
          y[index] = real_product(acc, p.real_scale);
        } else {
          q[index] = requantize_sum<T>(acc, p.multiplier, p.shift, p.output_zero_point, p.clamp_min,
                                       p.clamp_max);
        }
      }
    }
  }
}

}  // namespace

Status prepare_bmm(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 2, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("bmm without ElementwiseParams");
  auto* p = new_params<BmmParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_shape(context, p));
  if (length_of(given->input_zero_point()) != 2) {
    return context.invalid("number of zero points", length_of(given->input_zero_point()), 2);
  }
  const schema::DType dtype = context.input(0).dtype;
  p->zero_point_a = given->input_zero_point()->Get(0);
  p->zero_point_b = given->input_zero_point()->Get(1);
  FQ_RETURN_IF_ERROR(check_factor_zero_point(context, p->zero_point_a, dtype));
  FQ_RETURN_IF_ERROR(check_factor_zero_point(context, p->zero_point_b, dtype));
  FQ_RETURN_IF_ERROR(check_sums(context, *p));
  return prepare_output(context, *given, p);
}

void bmm_s8_scalar(const Step& step) { bmm<int8_t>(step); }
void bmm_s16_scalar(const Step& step) { bmm<int16_t>(step); }

}  // namespace fused_quant
