// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/conv2d_w4/conv2d_w4.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// One output position of one image, whose channels of a group of the convolution start at `x`.
struct Place {
  const int8_t* x;
  int32_t top;
  int32_t left;
};

uint32_t filter_size(const Conv2dW4Params& p) {
  return static_cast<uint32_t>(p.shape.h.kernel * p.shape.w.kernel) * p.depth;
}

// sum of x * weight over `length` channels of every tap.
uint32_t sum_taps(const Conv2dW4Params& p, const Place& place, const int8_t* weight,
                  uint32_t length) {
  const WindowAxis& h = p.shape.h;
  const WindowAxis& w = p.shape.w;
  const uint32_t zero_point = static_cast<uint32_t>(p.input_zero_point);
  uint32_t acc = 0;
  for (int32_t r = 0; r < h.kernel; ++r) {
    const int32_t row = place.top + r * h.dilation;
    for (int32_t k = 0; k < w.kernel; ++k, weight += p.depth) {
      const int32_t column = place.left + k * w.dilation;
      if (row >= 0 && row < h.in && column >= 0 && column < w.in) {
        const uint32_t pixel = static_cast<uint32_t>(row * w.in + column);
        acc += dot(place.x + pixel * p.shape.in_c, weight, length);
      } else if (zero_point != 0) {
        acc += zero_point * sum<int8_t>(weight, length);
      }
    }
  }
  return acc;
}

// Output channel `o` of all positions.
void channel(const Conv2dW4Params& p, const int8_t* x, const int8_t* weight, const void* bias,
             void* y, uint32_t o) {
  const uint32_t image = static_cast<uint32_t>(p.shape.h.in * p.shape.w.in) * p.shape.in_c;
  x += o / (p.shape.out_c / p.groups) * p.depth;
  uint32_t index = o;
  for (uint32_t b = 0; b < p.shape.batch; ++b, x += image) {
    for (int32_t oy = 0; oy < p.shape.h.out; ++oy) {
      for (int32_t ox = 0; ox < p.shape.w.out; ++ox, index += p.shape.out_c) {
        const Place place = {x, window_start(p.shape.h, oy), window_start(p.shape.w, ox)};
        p.output.store(y, index, o, bias, [&](uint32_t first, uint32_t length) {
          return sum_taps(p, {place.x + first, place.top, place.left}, weight + first, length);
        });
      }
    }
  }
}

}  // namespace

Status prepare_conv2d_w4(const OpContext& context, void* params, Prepared* prepared) {
  const auto* given = context.params<schema::DotParams>();
  if (given == nullptr) return context.invalid("conv2d_w4 without DotParams");
  FQ_RETURN_IF_ERROR(check_w4_operands(context, *given));
  auto* p = new_params<Conv2dW4Params>(params, prepared);
  const TensorView weight = context.input(1);
  FQ_RETURN_IF_ERROR(check_rank(context, weight, 4, "weight rank"));
  const uint32_t out_c = weight.dim[0];
  FQ_RETURN_IF_ERROR(
      prepare_conv_shape(context, *given, weight.dim[1], weight.dim[2], out_c, &p->shape));
  p->groups = given->groups();
  p->depth = weight.dim[3];
  FQ_RETURN_IF_ERROR(check_groups(context, p->groups, p->shape.in_c, out_c, p->depth));
  FQ_RETURN_IF_ERROR(prepare_w4(context, *given, out_c, p->depth, &p->output));
  p->input_zero_point = given->input_zero_point();
  prepared->scratch_bytes = filter_size(*p);
  return Status();
}

void conv2d_w4_s8_scalar(const Step& step) {
  const auto& p = step.params<Conv2dW4Params>();
  const int8_t* x = step.input<int8_t>(0);
  const uint8_t* packed = step.input<uint8_t>(1);
  const void* bias = p.output.has_bias ? step.input<void>(2) : nullptr;
  int8_t* weight = static_cast<int8_t*>(step.scratch);
  const uint32_t size = filter_size(p);
  for (uint32_t o = 0; o < p.shape.out_c; ++o) {
    unpack_s4(packed, o * size, size, weight);
    channel(p, x, weight, bias, step.output<void>(0), o);
  }
}

}  // namespace fused_quant
