// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/depthwise_conv2d/depthwise_conv2d.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// acc[o] += x[o / multiplier] * weight[o]: one tap inside the input.
template <typename T>
void add_tap(const T* x, const int8_t* weight, uint32_t in_c, uint32_t multiplier,
             WrappingAcc<T>* acc) {
  if (multiplier == 1) {
    for (uint32_t c = 0; c < in_c; ++c) acc[c] += static_cast<WrappingAcc<T>>(x[c] * weight[c]);
    return;
  }
  for (uint32_t c = 0; c < in_c; ++c, weight += multiplier, acc += multiplier) {
    for (uint32_t m = 0; m < multiplier; ++m)
      acc[m] += static_cast<WrappingAcc<T>>(x[c] * weight[m]);
  }
}

// acc[o] += zero_point * weight[o] for `taps` taps in the padding, which follow each other.
template <typename T>
void add_padding(int32_t zero_point, const int8_t* weight, uint32_t taps, uint32_t out_c,
                 WrappingAcc<T>* acc) {
  if (zero_point == 0) return;
  for (uint32_t t = 0; t < taps; ++t, weight += out_c) {
    for (uint32_t o = 0; o < out_c; ++o)
      acc[o] += static_cast<WrappingAcc<T>>(zero_point * weight[o]);
  }
}

// acc[o] of one output position; `x` is the batch's image.
template <typename T>
void accumulate(const DepthwiseConv2dParams& p, const T* x, const int8_t* weight, int32_t top,
                int32_t left, WrappingAcc<T>* acc) {
  const WindowAxis& h = p.shape.h;
  const WindowAxis& w = p.shape.w;
  const uint32_t out_c = p.shape.out_c;
  const TapRange rows = valid_taps(h, top);
  const TapRange columns = valid_taps(w, left);
  const uint32_t begin = static_cast<uint32_t>(columns.begin);
  const uint32_t end = static_cast<uint32_t>(columns.end);
  const uint32_t width = static_cast<uint32_t>(w.kernel);
  for (int32_t r = 0; r < h.kernel; ++r, weight += width * out_c) {
    if (r < rows.begin || r >= rows.end) {
      add_padding<T>(p.input_zero_point, weight, width, out_c, acc);
      continue;
    }
    const uint32_t row = static_cast<uint32_t>((top + r * h.dilation) * w.in);
    add_padding<T>(p.input_zero_point, weight, begin, out_c, acc);
    for (uint32_t k = begin; k < end; ++k) {
      const uint32_t column = static_cast<uint32_t>(left) + k * static_cast<uint32_t>(w.dilation);
      add_tap(x + (row + column) * p.shape.in_c, weight + k * out_c, p.shape.in_c,
              p.channel_multiplier, acc);
    }
    add_padding<T>(p.input_zero_point, weight + end * out_c, width - end, out_c, acc);
  }
}

template <typename T>
void depthwise_conv2d(const Step& step) {
  const auto& p = step.params<DepthwiseConv2dParams>();
  const T* x = step.input<T>(0);
  const int8_t* weight = step.input<int8_t>(1);
  const Acc<T>* bias = p.has_bias ? step.input<Acc<T>>(2) : nullptr;
  void* y = step.output<void>(0);
  uint32_t index = 0;
  auto* acc = static_cast<WrappingAcc<T>*>(step.scratch);
  const uint32_t out_c = p.shape.out_c;
  const uint32_t image = static_cast<uint32_t>(p.shape.h.in * p.shape.w.in) * p.shape.in_c;
  for (uint32_t b = 0; b < p.shape.batch; ++b, x += image) {
    for (int32_t oy = 0; oy < p.shape.h.out; ++oy) {
      const int32_t top = window_start(p.shape.h, oy);
      for (int32_t ox = 0; ox < p.shape.w.out; ++ox, index += out_c) {
        start_accumulators<T>(bias, out_c, acc);
        accumulate(p, x, weight, top, window_start(p.shape.w, ox), acc);
        for (uint32_t o = 0; o < out_c; ++o) p.output.store<T>(y, index + o, acc[o], o);
      }
    }
  }
}

}  // namespace

Status prepare_depthwise_conv2d(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_dot_operands(context));
  const auto* given = context.params<schema::DotParams>();
  if (given == nullptr) return context.invalid("depthwise_conv2d without DotParams");
  auto* p = new_params<DepthwiseConv2dParams>(params, prepared);
  const TensorView weight = context.input(1);
  FQ_RETURN_IF_ERROR(check_rank(context, weight, 3, "weight rank"));
  const uint32_t out_c = weight.dim[2];
  FQ_RETURN_IF_ERROR(
      prepare_conv_shape(context, *given, weight.dim[0], weight.dim[1], out_c, &p->shape));
  if (given->groups() != p->shape.in_c) {
    return context.invalid("groups of a depthwise convolution", given->groups(), p->shape.in_c);
  }
  if (out_c % p->shape.in_c != 0) {
    return context.invalid("output channels are no multiple of the input's", out_c, p->shape.in_c);
  }
  FQ_RETURN_IF_ERROR(prepare_dot(context, *given, out_c, &p->output));
  p->channel_multiplier = out_c / p->shape.in_c;
  p->has_bias = context.has_input(2);
  p->input_zero_point = given->input_zero_point();
  prepared->scratch_bytes = accumulator_bytes(context.input(0).dtype, out_c);
  return Status();
}

void depthwise_conv2d_s8_scalar(const Step& step) { depthwise_conv2d<int8_t>(step); }
void depthwise_conv2d_s16_scalar(const Step& step) { depthwise_conv2d<int16_t>(step); }

}  // namespace fused_quant
