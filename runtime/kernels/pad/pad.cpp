// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/pad/pad.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// Fills the loop over the positions that lie in both tensors.
void overlap(const TensorView& x, const TensorView& y, const flatbuffers::Vector<int32_t>* before,
             PadParams* p) {
  uint32_t stride[kMaxRank][2] = {};
  uint32_t step[2] = {1, 1};
  for (uint32_t d = x.rank; d > 0; --d) {
    stride[d - 1][0] = step[0];
    stride[d - 1][1] = step[1];
    step[0] *= x.dim[d - 1];
    step[1] *= y.dim[d - 1];
  }
  p->shows_input = true;
  for (uint32_t d = 0; d < x.rank; ++d) {
    const int64_t shift = before->Get(d);  // position in y less that in x
    const int64_t begin = shift > 0 ? shift : 0;
    const int64_t x_end = shift + x.dim[d];
    const int64_t end = x_end < y.dim[d] ? x_end : int64_t{y.dim[d]};
    if (end <= begin) {
      p->shows_input = false;
      return;
    }
    p->first[0] += static_cast<uint32_t>(begin - shift) * stride[d][0];
    p->first[1] += static_cast<uint32_t>(begin) * stride[d][1];
    p->loop.append(static_cast<uint32_t>(end - begin), {stride[d][0], stride[d][1]});
  }
  p->loop.finish();
}

template <typename T>
void pad(const Step& step) {
  const auto& p = step.params<PadParams>();
  const T* x = step.input<T>(0) + p.first[0];
  T* y = step.output<T>(0);
  for (uint32_t i = 0; i < p.count; ++i) y[i] = static_cast<T>(p.value);
  if (!p.shows_input) return;
  const uint32_t* stride[2] = {p.loop.stride[0], p.loop.stride[1]};
  const uint32_t inner = p.loop.rank - 1;
  y += p.first[1];
  for_each_row(p.loop, [&](uint32_t, const uint32_t(&from)[2], uint32_t length) {
    if (stride[0][inner] == 1 && stride[1][inner] == 1) {
      p.grid.row(x + from[0], y + from[1], length);
      return;
    }
    for (uint32_t i = 0; i < length; ++i) {
      p.grid.row(x + from[0] + i * stride[0][inner], y + from[1] + i * stride[1][inner], 1);
    }
  });
}

}  // namespace

Status prepare_pad(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::PadParams>();
  if (given == nullptr) return context.invalid("pad without PadParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  FQ_RETURN_IF_ERROR(check_rank(context, y, x.rank, "output rank"));
  if (length_of(given->before()) != x.rank) {
    return context.invalid("number of amounts", length_of(given->before()), x.rank);
  }
  const int32_t highest = y.dtype == schema::DType_s16 ? INT16_MAX : INT8_MAX;
  if (given->value() < -highest - 1 || given->value() > highest) {
    return context.invalid("value is no code", given->value());
  }
  auto* p = new_params<PadParams>(params, prepared);
  p->count = y.count();
  p->value = given->value();
  p->grid = Regrid{given->input_zero_point(),  given->multiplier(), given->shift(),
                   given->output_zero_point(), given->clamp_min(),  given->clamp_max()};
  FQ_RETURN_IF_ERROR(check_regrid(context, p->grid, y.dtype));
  overlap(x, y, given->before(), p);
  return Status();
}

void pad_s8_scalar(const Step& step) { pad<int8_t>(step); }
void pad_s16_scalar(const Step& step) { pad<int16_t>(step); }

}  // namespace fused_quant
