// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/window/window.h"

namespace fused_quant {
namespace {

Status check_attribute(const OpContext& context, const char* what, uint32_t value, uint32_t least) {
  if (value < least || value > kMaxWindowAttribute) {
    return context.invalid(what, value, value < least ? least : kMaxWindowAttribute);
  }
  return Status();
}

// Checks the ranges and copies. Writes in + pads - extent, which may be negative.
Status prepare_axis(const OpContext& context, const WindowAttributes& given, WindowAxis* axis,
                    int64_t* slack) {
  FQ_RETURN_IF_ERROR(check_attribute(context, "kernel size out of range", given.kernel, 1));
  FQ_RETURN_IF_ERROR(check_attribute(context, "stride out of range", given.stride, 1));
  FQ_RETURN_IF_ERROR(check_attribute(context, "dilation out of range", given.dilation, 1));
  FQ_RETURN_IF_ERROR(check_attribute(context, "padding out of range", given.pad_before, 0));
  FQ_RETURN_IF_ERROR(check_attribute(context, "padding out of range", given.pad_after, 0));
  const int64_t padded = int64_t{given.in} + given.pad_before + given.pad_after;
  const int64_t extent = int64_t{given.kernel - 1} * given.dilation + 1;
  if (padded > kMaxWindowExtent) return context.invalid("axis too long", padded, kMaxWindowExtent);
  if (extent > kMaxWindowExtent) {
    return context.invalid("window too long", extent, kMaxWindowExtent);
  }
  *axis = WindowAxis{static_cast<int32_t>(given.in),       static_cast<int32_t>(given.out),
                     static_cast<int32_t>(given.kernel),   static_cast<int32_t>(given.stride),
                     static_cast<int32_t>(given.dilation), static_cast<int32_t>(given.pad_before),
                     static_cast<int32_t>(given.pad_after)};
  *slack = padded - extent;
  return Status();
}

}  // namespace

Status prepare_conv_axis(const OpContext& context, const WindowAttributes& given,
                         WindowAxis* axis) {
  int64_t slack = 0;
  FQ_RETURN_IF_ERROR(prepare_axis(context, given, axis, &slack));
  if (slack < 0) return context.invalid("kernel larger than the padded input", slack, 0);
  const int64_t expected = slack / given.stride + 1;
  if (given.out != expected) return context.invalid("output size", given.out, expected);
  return Status();
}

Status prepare_transposed_axis(const OpContext& context, const WindowAttributes& given,
                               uint32_t output_padding, WindowAxis* axis) {
  // The windows are those of the convolution that leads back, from the output to the input.
  WindowAttributes back = given;
  back.in = given.out;
  back.out = given.in;
  int64_t slack = 0;
  FQ_RETURN_IF_ERROR(prepare_axis(context, back, axis, &slack));
  FQ_RETURN_IF_ERROR(check_attribute(context, "output padding out of range", output_padding, 0));
  const int64_t expected = (int64_t{given.in} - 1) * given.stride + output_padding;
  if (slack != expected) {
    return context.invalid("output size", given.out, given.out + expected - slack);
  }
  axis->in = static_cast<int32_t>(given.in);
  axis->out = static_cast<int32_t>(given.out);
  return Status();
}

Status prepare_pool_axis(const OpContext& context, const WindowAttributes& given,
                         WindowAxis* axis) {
  int64_t slack = 0;
  FQ_RETURN_IF_ERROR(prepare_axis(context, given, axis, &slack));
  const int64_t stride = given.stride;
  // Floor and ceiling of slack / stride; a negative slack only allows the ceiling 0.
  const int64_t floor = slack >= 0 ? slack / stride : -1;
  const int64_t ceil = slack >= 0 ? (slack + stride - 1) / stride : (slack > -stride ? 0 : -1);
  const int64_t last = int64_t{given.out} - 1;
  if (last != floor && last != ceil) return context.invalid("output size", given.out, ceil + 1);
  if (last * stride >= int64_t{given.in} + given.pad_before) {
    return context.invalid("last window starts beyond the input", given.out, floor + 1);
  }
  // Windows that start at or after position 0 have a valid first tap. The others are checked one by
  // one: at most pad_before of them.
  for (int64_t o = 0; o <= last && o * stride < given.pad_before; ++o) {
    const TapRange taps = valid_taps(*axis, window_start(*axis, static_cast<int32_t>(o)));
    if (taps.begin == taps.end) return context.invalid("window without a valid element", o);
  }
  return Status();
}

}  // namespace fused_quant
