// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/conv_transpose2d/conv_transpose2d.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// The input position that tap k brings to output position o; -1 if there is none.
int32_t source(const WindowAxis& axis, int32_t o, int32_t k) {
  const int32_t place = o + axis.pad_before - k * axis.dilation;
  if (place < 0 || place % axis.stride != 0) return -1;
  const int32_t i = place / axis.stride;
  return i < axis.in ? i : -1;
}

// acc[o] += the taps that reach output position (oy, ox); `x` is the batch's image.
template <typename T>
void accumulate(const ConvTranspose2dParams& p, const T* x, const int8_t* weight, int32_t oy,
                int32_t ox, WrappingAcc<T>* acc) {
  const WindowAxis& h = p.shape.h;
  const WindowAxis& w = p.shape.w;
  const uint32_t depth = p.shape.in_c / p.groups;
  const uint32_t taps = static_cast<uint32_t>(h.kernel * w.kernel);
  for (int32_t ky = 0; ky < h.kernel; ++ky) {
    const int32_t iy = source(h, oy, ky);
    if (iy < 0) continue;
    for (int32_t kx = 0; kx < w.kernel; ++kx) {
      const int32_t ix = source(w, ox, kx);
      if (ix < 0) continue;
      const uint32_t tap = static_cast<uint32_t>(ky * w.kernel + kx);
      add_tap(x + static_cast<uint32_t>(iy * w.in + ix) * p.shape.in_c, p.input_zero_point,
              weight + tap * depth, {p.groups, p.shape.out_c, depth, taps * depth}, acc);
    }
  }
}

template <typename T>
void conv_transpose2d(const Step& step) {
  const auto& p = step.params<ConvTranspose2dParams>();
  const T* x = step.input<T>(0);
  const int8_t* weight = step.input<int8_t>(1);
  const Acc<T>* bias = p.has_bias ? step.input<Acc<T>>(2) : nullptr;
  void* y = step.output<void>(0);
  auto* acc = static_cast<WrappingAcc<T>*>(step.scratch);
  const uint32_t out_c = p.shape.out_c;
  const uint32_t image = static_cast<uint32_t>(p.shape.h.in * p.shape.w.in) * p.shape.in_c;
  uint32_t index = 0;
  for (uint32_t b = 0; b < p.shape.batch; ++b, x += image) {
    for (int32_t oy = 0; oy < p.shape.h.out; ++oy) {
      for (int32_t ox = 0; ox < p.shape.w.out; ++ox, index += out_c) {
        start_accumulators<T>(bias, out_c, acc);
        accumulate(p, x, weight, oy, ox, acc);
        for (uint32_t o = 0; o < out_c; ++o) p.output.store<T>(y, index + o, acc[o], o);
      }
    }
  }
}

}  // namespace

Status prepare_conv_transpose2d(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_dot_operands(context));
  const auto* given = context.params<schema::DotParams>();
  if (given == nullptr) return context.invalid("conv_transpose2d without DotParams");
  auto* p = new_params<ConvTranspose2dParams>(params, prepared);
  const TensorView weight = context.input(1);
  FQ_RETURN_IF_ERROR(check_rank(context, weight, 4, "weight rank"));
  const uint32_t out_c = weight.dim[0];
  TensorView x;
  TensorView y;
  FQ_RETURN_IF_ERROR(
      prepare_conv_places(context, *given, weight.dim[1], weight.dim[2], out_c, &p->shape, &x, &y));
  FQ_RETURN_IF_ERROR(
      prepare_transposed_axis(context,
                              {x.dim[1], y.dim[1], given->kernel_h(), given->stride_h(),
                               given->dilation_h(), given->pad_top(), given->pad_bottom()},
                              given->output_padding_h(), &p->shape.h));
  FQ_RETURN_IF_ERROR(
      prepare_transposed_axis(context,
                              {x.dim[2], y.dim[2], given->kernel_w(), given->stride_w(),
                               given->dilation_w(), given->pad_left(), given->pad_right()},
                              given->output_padding_w(), &p->shape.w));
  p->groups = given->groups();
  FQ_RETURN_IF_ERROR(check_groups(context, p->groups, p->shape.in_c, out_c, weight.dim[3]));
  FQ_RETURN_IF_ERROR(prepare_dot(context, *given, out_c, &p->output));
  p->has_bias = context.has_input(2);
  p->input_zero_point = given->input_zero_point();
  prepared->scratch_bytes = accumulator_bytes(context.input(0).dtype, out_c);
  return Status();
}

void conv_transpose2d_s8_scalar(const Step& step) { conv_transpose2d<int8_t>(step); }
void conv_transpose2d_s16_scalar(const Step& step) { conv_transpose2d<int16_t>(step); }

}  // namespace fused_quant
