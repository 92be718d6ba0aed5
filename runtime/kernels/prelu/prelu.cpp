// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/prelu/prelu.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {
namespace {

template <typename T>
void prelu(const Step& step) {
  const auto& p = step.params<PreluParams>();
  const T* x = step.input<T>(0);
  T* y = step.output<T>(0);
  for (uint32_t row = 0; row < p.rows; ++row) {
    for (uint32_t c = 0; c < p.channels; ++c, ++x, ++y) {
      const int32_t d = *x - p.input_zero_point;
      const uint32_t entry = d >= 0 ? 0 : 1 + c;
      *y =
          static_cast<T>(requantize(p.negate[entry] != 0 ? -d : d, p.multiplier[entry],
                                    p.shift[entry], p.output_zero_point, p.clamp_min, p.clamp_max));
    }
  }
}

}  // namespace

Status prepare_prelu(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::ElementwiseParams>();
  if (given == nullptr) return context.invalid("prelu without ElementwiseParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  if (x.count() != y.count()) {
    return context.invalid("number of output elements", y.count(), x.count());
  }
  if (length_of(given->input_zero_point()) != 1) {
    return context.invalid("number of input zero points", length_of(given->input_zero_point()), 1);
  }
  const bool one_slope = length_of(given->multiplier()) == 2;
  const uint32_t channels = one_slope || x.rank == 0 ? 1 : x.dim[x.rank - 1];
  FQ_RETURN_IF_ERROR(check_multipliers(context, given->multiplier(), given->shift(), 1 + channels));
  if (length_of(given->negate()) != 1 + channels) {
    return context.invalid("number of signs", length_of(given->negate()), 1 + channels);
  }
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->input_zero_point()->Get(0), x.dtype));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), y.dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), y.dtype));
  auto* p = new_params<PreluParams>(params, prepared);
  p->rows = x.count() / channels;
  p->channels = channels;
  p->input_zero_point = given->input_zero_point()->Get(0);
  p->multiplier = given->multiplier()->data();
  p->shift = given->shift()->data();
  p->negate = given->negate()->data();
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return Status();
}

void prelu_s8_scalar(const Step& step) { prelu<int8_t>(step); }
void prelu_s16_scalar(const Step& step) { prelu<int16_t>(step); }

}  // namespace fused_quant
