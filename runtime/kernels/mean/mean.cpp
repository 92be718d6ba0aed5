// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/mean/mean.h"

#include "kernels/reduce/reduce.h"
#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {
namespace {

// One list of alternating dimensions, filled from the innermost outwards.
struct DimList {
  uint32_t* size;
  uint32_t* stride;
  uint32_t next;  // entries still free

  void push(uint32_t dim_size, uint32_t dim_stride) {
    --next;
    size[next] = dim_size;
    stride[next] = dim_stride;
  }
};

void split_dims(const TensorView& x, uint32_t mask, MeanParams* p) {
  for (uint32_t i = 0; i < 3; ++i) {
    p->kept[i] = p->reduced[i] = 1;
    p->kept_stride[i] = p->reduced_stride[i] = 0;
  }
  DimList kept{p->kept, p->kept_stride, 3};
  DimList reduced{p->reduced, p->reduced_stride, 3};
  p->inner = 1;
  p->terms = 1;
  uint32_t step = 1;
  bool first = true;
  bool last_reduced = false;
  for (uint32_t d = x.rank; d > 0; --d) {
    const uint32_t size = x.dim[d - 1];
    if (size == 1) continue;
    const bool is_reduced = (mask >> (d - 1) & 1u) != 0;
    DimList& list = is_reduced ? reduced : kept;
    const bool merge = !first && is_reduced == last_reduced;
    if (is_reduced) p->terms *= size;
    if (!is_reduced && (first || (merge && kept.next == 3))) {
      p->inner *= size;  // the innermost run
    } else if (merge) {
      list.size[list.next] *= size;
    } else {
      list.push(size, step);
    }
    step *= size;
    first = false;
    last_reduced = is_reduced;
  }
}

// acc[c] = sum of x[c] - zero_point over the reduced dimensions, c below `inner`.
template <typename T>
void sum_reduced(const MeanParams& p, const T* x, int32_t* acc) {
  const int32_t start = -static_cast<int32_t>(p.terms) * p.input_zero_point;
  for (uint32_t c = 0; c < p.inner; ++c) acc[c] = start;
  for (uint32_t i = 0; i < p.reduced[0]; ++i) {
    for (uint32_t j = 0; j < p.reduced[1]; ++j) {
      const T* row = x + i * p.reduced_stride[0] + j * p.reduced_stride[1];
      if (p.inner == 1) {
        for (uint32_t k = 0; k < p.reduced[2]; ++k) *acc += row[k * p.reduced_stride[2]];
        continue;
      }
      for (uint32_t k = 0; k < p.reduced[2]; ++k, row += p.reduced_stride[2]) {
        for (uint32_t c = 0; c < p.inner; ++c) acc[c] += row[c];
      }
    }
  }
}

template <typename T>
void mean(const Step& step) {
  const auto& p = step.params<MeanParams>();
  const T* x = step.input<T>(0);
  T* y = step.output<T>(0);
  int32_t* acc = static_cast<int32_t*>(step.scratch);
  for (uint32_t i = 0; i < p.kept[0]; ++i) {
    for (uint32_t j = 0; j < p.kept[1]; ++j) {
      for (uint32_t k = 0; k < p.kept[2]; ++k, y += p.inner) {
        sum_reduced(p, x + i * p.kept_stride[0] + j * p.kept_stride[1] + k * p.kept_stride[2], acc);
        for (uint32_t c = 0; c < p.inner; ++c) {
          y[c] = static_cast<T>(requantize(acc[c], p.multiplier, p.shift, p.output_zero_point,
                                           p.clamp_min, p.clamp_max));
        }
      }
    }
  }
}

}  // namespace

Status prepare_mean(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::ReduceParams>();
  if (given == nullptr) return context.invalid("mean without ReduceParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  uint32_t mask = 0;
  FQ_RETURN_IF_ERROR(read_axes(context, given->axes(), x.rank, &mask));
  FQ_RETURN_IF_ERROR(check_reduced_shape(context, x, y, mask));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->input_zero_point(), x.dtype));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_multiplier(context, given->multiplier(), given->shift()));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  auto* p = new_params<MeanParams>(params, prepared);
  split_dims(x, mask, p);
  FQ_RETURN_IF_ERROR(check_sum(context, p->terms, x.dtype, given->input_zero_point()));
  p->input_zero_point = given->input_zero_point();
  p->output_zero_point = given->output_zero_point();
  p->multiplier = given->multiplier();
  p->shift = given->shift();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  prepared->scratch_bytes = uint64_t{p->inner} * sizeof(int32_t);
  return Status();
}

void mean_s8_scalar(const Step& step) { mean<int8_t>(step); }
void mean_s16_scalar(const Step& step) { mean<int16_t>(step); }

}  // namespace fused_quant
