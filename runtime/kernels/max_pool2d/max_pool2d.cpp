// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/max_pool2d/max_pool2d.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {
namespace {

// y[c] = max of x[c] over the valid taps. Every window has one.
template <typename T>
void max_window(const T* x, TapRange rows, TapRange columns, uint32_t step_h, uint32_t step_w,
                uint32_t channels, T* y) {
  for (uint32_t c = 0; c < channels; ++c) y[c] = x[c];
  for (int32_t r = rows.begin; r < rows.end; ++r) {
    const T* tap = x + static_cast<uint32_t>(r - rows.begin) * step_h;
    for (int32_t k = columns.begin; k < columns.end; ++k, tap += step_w) {
      for (uint32_t c = 0; c < channels; ++c) y[c] = tap[c] > y[c] ? tap[c] : y[c];
    }
  }
}

template <typename T>
void finish(const MaxPool2dParams& p, uint32_t channels, T* y) {
  for (uint32_t c = 0; c < channels; ++c) {
    y[c] =
        static_cast<T>(p.requantize ? requantize(y[c] - p.input_zero_point, p.multiplier, p.shift,
                                                 p.output_zero_point, p.clamp_min, p.clamp_max)
                                    : clamp(y[c], p.clamp_min, p.clamp_max));
  }
}

template <typename T>
void max_pool2d(const Step& step) {
  const auto& p = step.params<MaxPool2dParams>();
  const T* x = step.input<T>(0);
  T* y = step.output<T>(0);
  const uint32_t row = p.shape.in_w * p.shape.channels;
  const uint32_t step_h = static_cast<uint32_t>(p.h.dilation) * row;
  const uint32_t step_w = static_cast<uint32_t>(p.w.dilation) * p.shape.channels;
  for (uint32_t b = 0; b < p.shape.batch; ++b, x += p.shape.in_h * row) {
    for (int32_t oy = 0; oy < p.h.out; ++oy) {
      const int32_t top = window_start(p.h, oy);
      const TapRange rows = valid_taps(p.h, top);
      const T* x_row = x + static_cast<uint32_t>(top + rows.begin * p.h.dilation) * row;
      for (int32_t ox = 0; ox < p.w.out; ++ox, y += p.shape.channels) {
        const int32_t left = window_start(p.w, ox);
        const TapRange columns = valid_taps(p.w, left);
        const uint32_t first = static_cast<uint32_t>(left + columns.begin * p.w.dilation);
        max_window(x_row + first * p.shape.channels, rows, columns, step_h, step_w,
                   p.shape.channels, y);
        finish(p, p.shape.channels, y);
      }
    }
  }
}

}  // namespace

Status prepare_max_pool2d(const OpContext& context, void* params, Prepared* prepared) {
  auto* p = new_params<MaxPool2dParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_pool_shape(context, &p->shape));
  const auto* given = context.params<schema::WindowParams>();
  if (given == nullptr) return context.invalid("max_pool2d without WindowParams");
  FQ_RETURN_IF_ERROR(prepare_pool_axes(context, p->shape, *given, &p->h, &p->w));
  const schema::DType dtype = context.output(0).dtype;
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->input_zero_point(), dtype));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given->output_zero_point(), dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given->clamp_min(), given->clamp_max(), dtype));
  p->requantize = length_of(given->multiplier()) != 0;
  FQ_RETURN_IF_ERROR(
      check_multipliers(context, given->multiplier(), given->shift(), p->requantize ? 1 : 0));
  if (p->requantize) {
    p->multiplier = given->multiplier()->Get(0);
    p->shift = given->shift()->Get(0);
  } else if (given->input_zero_point() != given->output_zero_point()) {
    return context.invalid("zero points differ but there is no multiplier",
                           given->output_zero_point(), given->input_zero_point());
  }
  p->input_zero_point = given->input_zero_point();
  p->output_zero_point = given->output_zero_point();
  p->clamp_min = given->clamp_min();
  p->clamp_max = given->clamp_max();
  return Status();
}

void max_pool2d_s8_scalar(const Step& step) { max_pool2d<int8_t>(step); }
void max_pool2d_s16_scalar(const Step& step) { max_pool2d<int16_t>(step); }

}  // namespace fused_quant
