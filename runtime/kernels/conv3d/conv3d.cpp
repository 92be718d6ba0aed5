// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/conv3d/conv3d.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// The kernel of the parameters is that of the weight.
Status check_kernel(const OpContext& context, const schema::DotParams& given,
                    const TensorView& weight) {
  if (given.kernel_d() != weight.dim[1]) {
    return context.invalid("kernel_d of the weight", weight.dim[1], given.kernel_d());
  }
  if (given.kernel_h() != weight.dim[2]) {
    return context.invalid("kernel_h of the weight", weight.dim[2], given.kernel_h());
  }
  if (given.kernel_w() != weight.dim[3]) {
    return context.invalid("kernel_w of the weight", weight.dim[3], given.kernel_w());
  }
  return Status();
}

Status prepare_places(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                      Conv3dParams* p) {
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_rank(context, x, 5, "input rank"));
  FQ_RETURN_IF_ERROR(check_rank(context, y, 5, "output rank"));
  if (x.dim[0] != y.dim[0]) return context.invalid("output batch", y.dim[0], x.dim[0]);
  if (y.dim[4] != out_c) return context.invalid("output channels", y.dim[4], out_c);
  p->batch = x.dim[0];
  p->in_c = x.dim[4];
  p->out_c = out_c;
  FQ_RETURN_IF_ERROR(prepare_conv_axis(context,
                                       {x.dim[1], y.dim[1], given.kernel_d(), given.stride_d(),
                                        given.dilation_d(), given.pad_front(), given.pad_back()},
                                       &p->d));
  FQ_RETURN_IF_ERROR(prepare_conv_axis(context,
                                       {x.dim[2], y.dim[2], given.kernel_h(), given.stride_h(),
                                        given.dilation_h(), given.pad_top(), given.pad_bottom()},
                                       &p->h));
  return prepare_conv_axis(context,
                           {x.dim[3], y.dim[3], given.kernel_w(), given.stride_w(),
                            given.dilation_w(), given.pad_left(), given.pad_right()},
                           &p->w);
}

// The input position of tap k of the window at `start`; -1 in the padding.
int32_t source(const WindowAxis& axis, int32_t start, int32_t k) {
  const int32_t i = start + k * axis.dilation;
  return i < axis.in ? i : -1;
}

// acc[o] += the taps of one output position that are inside the input; `x` is the batch's volume.
template <typename T>
void accumulate(const Conv3dParams& p, const T* x, const int8_t* weight, int32_t front, int32_t top,
                int32_t left, WrappingAcc<T>* acc) {
  const uint32_t depth = p.in_c / p.groups;
  const uint32_t taps = static_cast<uint32_t>(p.d.kernel * p.h.kernel * p.w.kernel);
  uint32_t tap = 0;
  for (int32_t kd = 0; kd < p.d.kernel; ++kd) {
    const int32_t id = source(p.d, front, kd);
    for (int32_t ky = 0; ky < p.h.kernel; ++ky) {
      const int32_t iy = source(p.h, top, ky);
      for (int32_t kx = 0; kx < p.w.kernel; ++kx, ++tap) {
        const int32_t ix = source(p.w, left, kx);
        if (id < 0 || iy < 0 || ix < 0) continue;
        const uint32_t place = static_cast<uint32_t>((id * p.h.in + iy) * p.w.in + ix);
        add_tap(x + place * p.in_c, p.input_zero_point, weight + tap * depth,
                {p.groups, p.out_c, depth, taps * depth}, acc);
      }
    }
  }
}

template <typename T>
void conv3d(const Step& step) {
  const auto& p = step.params<Conv3dParams>();
  const T* x = step.input<T>(0);
  const int8_t* weight = step.input<int8_t>(1);
  const Acc<T>* bias = p.has_bias ? step.input<Acc<T>>(2) : nullptr;
  void* y = step.output<void>(0);
  auto* acc = static_cast<WrappingAcc<T>*>(step.scratch);
  const uint32_t volume = static_cast<uint32_t>(p.d.in * p.h.in * p.w.in) * p.in_c;
  uint32_t index = 0;
  for (uint32_t b = 0; b < p.batch; ++b, x += volume) {
    for (int32_t od = 0; od < p.d.out; ++od) {
      for (int32_t oy = 0; oy < p.h.out; ++oy) {
        for (int32_t ox = 0; ox < p.w.out; ++ox, index += p.out_c) {
          start_accumulators<T>(bias, p.out_c, acc);
          accumulate(p, x, weight, window_start(p.d, od), window_start(p.h, oy),
                     window_start(p.w, ox), acc);
          for (uint32_t o = 0; o < p.out_c; ++o) p.output.store<T>(y, index + o, acc[o], o);
        }
      }
    }
  }
}

}  // namespace

Status prepare_conv3d(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_dot_operands(context));
  const auto* given = context.params<schema::DotParams>();
  if (given == nullptr) return context.invalid("conv3d without DotParams");
  auto* p = new_params<Conv3dParams>(params, prepared);
  const TensorView weight = context.input(1);
  FQ_RETURN_IF_ERROR(check_rank(context, weight, 5, "weight rank"));
  const uint32_t out_c = weight.dim[0];
  FQ_RETURN_IF_ERROR(check_kernel(context, *given, weight));
  FQ_RETURN_IF_ERROR(prepare_places(context, *given, out_c, p));
  p->groups = given->groups();
  FQ_RETURN_IF_ERROR(check_groups(context, p->groups, p->in_c, out_c, weight.dim[4]));
  FQ_RETURN_IF_ERROR(prepare_dot(context, *given, out_c, &p->output));
  p->has_bias = context.has_input(2);
  p->input_zero_point = given->input_zero_point();
  prepared->scratch_bytes = accumulator_bytes(context.input(0).dtype, out_c);
  return Status();
}

void conv3d_s8_scalar(const Step& step) { conv3d<int8_t>(step); }
void conv3d_s16_scalar(const Step& step) { conv3d<int16_t>(step); }

}  // namespace fused_quant
