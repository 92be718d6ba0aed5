// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/conv2d/conv2d.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// One output position: which taps are inside the input, and where the first of them is.
template <typename T>
struct Patch {
  TapRange rows;
  TapRange columns;
  const T* first;   // null when no tap is inside
  uint32_t step_h;  // elements between taps
  uint32_t step_w;
  uint32_t depth;  // input channels of a group
  bool dense;      // the taps of a row are contiguous, as in the weight
};

// sum of x * weight over the taps inside the input, for one output channel. `x` is the patch's
// first tap moved to the channel's group.
template <typename T>
WrappingAcc<T> inside(const Conv2dParams& p, const Patch<T>& patch, const T* x,
                      const int8_t* weight) {
  const uint32_t columns = static_cast<uint32_t>(patch.columns.end - patch.columns.begin);
  WrappingAcc<T> acc = 0;
  for (int32_t r = patch.rows.begin; r < patch.rows.end; ++r, x += patch.step_h) {
    const int8_t* w =
        weight + static_cast<uint32_t>(r * p.shape.w.kernel + patch.columns.begin) * patch.depth;
    if (patch.dense) {
      acc += dot(x, w, columns * patch.depth);
      continue;
    }
    for (uint32_t k = 0; k < columns; ++k) {
      acc += dot(x + k * patch.step_w, w + k * patch.depth, patch.depth);
    }
  }
  return acc;
}

// sum of weight over the taps in the padding, for one output channel.
template <typename T>
WrappingAcc<T> padded(const Conv2dParams& p, const Patch<T>& patch, const int8_t* weight) {
  const uint32_t width = static_cast<uint32_t>(p.shape.w.kernel);
  WrappingAcc<T> acc = 0;
  for (int32_t r = 0; r < p.shape.h.kernel; ++r, weight += width * patch.depth) {
    if (r < patch.rows.begin || r >= patch.rows.end) {
      acc += sum<T>(weight, width * patch.depth);
      continue;
    }
    const uint32_t begin = static_cast<uint32_t>(patch.columns.begin);
    const uint32_t end = static_cast<uint32_t>(patch.columns.end);
    acc += sum<T>(weight, begin * patch.depth);
    acc += sum<T>(weight + end * patch.depth, (width - end) * patch.depth);
  }
  return acc;
}

// All output channels of one position, whose first output is element `index`.
template <typename T>
void position(const Conv2dParams& p, const Patch<T>& patch, const int8_t* weight,
              const Acc<T>* bias, void* y, uint32_t index) {
  const uint32_t size = static_cast<uint32_t>(p.shape.h.kernel * p.shape.w.kernel) * patch.depth;
  const bool full = patch.rows.end - patch.rows.begin == p.shape.h.kernel &&
                    patch.columns.end - patch.columns.begin == p.shape.w.kernel;
  const auto zero_point = static_cast<WrappingAcc<T>>(p.input_zero_point);
  const uint32_t channels = p.shape.out_c / p.groups;
  uint32_t o = 0;
  for (uint32_t g = 0; g < p.groups; ++g) {
    for (uint32_t i = 0; i < channels; ++i, ++o, weight += size) {
      WrappingAcc<T> acc = start<T>(bias, o);
      if (patch.first != nullptr) acc += inside(p, patch, patch.first + g * patch.depth, weight);
      if (!full && zero_point != 0) acc += zero_point * padded(p, patch, weight);
      p.output.store<T>(y, index + o, acc, o);
    }
  }
}

template <typename T>
void conv2d(const Step& step) {
  const auto& p = step.params<Conv2dParams>();
  const T* x = step.input<T>(0);
  const int8_t* weight = step.input<int8_t>(1);
  const Acc<T>* bias = p.has_bias ? step.input<Acc<T>>(2) : nullptr;
  void* y = step.output<void>(0);
  uint32_t index = 0;
  const WindowAxis& h = p.shape.h;
  const WindowAxis& w = p.shape.w;
  const uint32_t row = static_cast<uint32_t>(w.in) * p.shape.in_c;
  Patch<T> patch;
  patch.step_h = static_cast<uint32_t>(h.dilation) * row;
  patch.step_w = static_cast<uint32_t>(w.dilation) * p.shape.in_c;
  patch.depth = p.shape.in_c / p.groups;
  patch.dense = p.groups == 1 && w.dilation == 1;
  for (uint32_t b = 0; b < p.shape.batch; ++b, x += static_cast<uint32_t>(h.in) * row) {
    for (int32_t oy = 0; oy < h.out; ++oy) {
      const int32_t top = window_start(h, oy);
      patch.rows = valid_taps(h, top);
      for (int32_t ox = 0; ox < w.out; ++ox, index += p.shape.out_c) {
        const int32_t left = window_start(w, ox);
        patch.columns = valid_taps(w, left);
        patch.first = nullptr;
        if (patch.rows.begin != patch.rows.end && patch.columns.begin != patch.columns.end) {
          patch.first =
              x + static_cast<uint32_t>(top + patch.rows.begin * h.dilation) * row +
              static_cast<uint32_t>(left + patch.columns.begin * w.dilation) * p.shape.in_c;
        }
        position(p, patch, weight, bias, y, index);
      }
    }
  }
}

}  // namespace

Status prepare_conv2d(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_dot_operands(context));
  const auto* given = context.params<schema::DotParams>();
  if (given == nullptr) return context.invalid("conv2d without DotParams");
  auto* p = new_params<Conv2dParams>(params, prepared);
  const TensorView weight = context.input(1);
  FQ_RETURN_IF_ERROR(check_rank(context, weight, 4, "weight rank"));
  const uint32_t out_c = weight.dim[0];
  FQ_RETURN_IF_ERROR(
      prepare_conv_shape(context, *given, weight.dim[1], weight.dim[2], out_c, &p->shape));
  p->groups = given->groups();
  FQ_RETURN_IF_ERROR(check_groups(context, p->groups, p->shape.in_c, out_c, weight.dim[3]));
  FQ_RETURN_IF_ERROR(prepare_dot(context, *given, out_c, &p->output));
  p->has_bias = context.has_input(2);
  p->input_zero_point = given->input_zero_point();
  return Status();
}

void conv2d_s8_scalar(const Step& step) { conv2d<int8_t>(step); }
void conv2d_s16_scalar(const Step& step) { conv2d<int16_t>(step); }

}  // namespace fused_quant
