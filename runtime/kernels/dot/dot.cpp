// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/dot/dot.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// [batch, height, width, channels]; one of rank 3 has no height.
Status check_image(const OpContext& context, const TensorView& view, const char* what,
                   TensorView* image) {
  *image = view;
  if (view.rank == 4) return Status();
  FQ_RETURN_IF_ERROR(check_rank(context, view, 3, what));
  image->rank = 4;
  for (uint32_t i = 3; i > 1; --i) image->dim[i] = view.dim[i - 1];
  image->dim[1] = 1;
  return Status();
}

// A float output: one scale, or one per channel, and no multipliers.
Status prepare_real(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                    DotOutput* output) {
  const uint32_t length = length_of(given.real_scale());
  if (length != 1 && length != out_c) return context.invalid("number of scales", length, out_c);
  for (uint32_t i = 0; i < length; ++i) {
    FQ_RETURN_IF_ERROR(check_scale(context, given.real_scale()->Get(i)));
  }
  if (length_of(given.multiplier()) != 0 || length_of(given.shift()) != 0) {
    return context.invalid("multipliers of a float output", length_of(given.multiplier()));
  }
  output->real_scale = given.real_scale()->data();
  output->channel_step = length == 1 ? 0 : 1;
  return Status();
}

}  // namespace

Status check_dot_operands(const OpContext& context) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 3, 1));
  const TensorView x = context.input(0);
  FQ_RETURN_IF_ERROR(check_signed(context, x, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, context.input(1), schema::DType_s8, "weight dtype"));
  if (context.has_input(2)) {
    const schema::DType wanted =
        x.dtype == schema::DType_s16 ? schema::DType_s64 : schema::DType_s32;
    FQ_RETURN_IF_ERROR(check_dtype(context, context.input(2), wanted, "bias dtype"));
  }
  if (context.output(0).dtype == schema::DType_f32) return Status();
  return check_dtype(context, context.output(0), x.dtype, "output dtype");
}

Status prepare_dot(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                   DotOutput* output) {
  if (context.has_input(2)) {
    const TensorView bias = context.input(2);
    if (bias.count() != out_c) return context.invalid("bias length", bias.count(), out_c);
  }
  const schema::DType dtype = context.input(0).dtype;
  FQ_RETURN_IF_ERROR(check_factor_zero_point(context, given.input_zero_point(), dtype));
  if (context.output(0).dtype == schema::DType_f32) {
    return prepare_real(context, given, out_c, output);
  }
  if (length_of(given.real_scale()) != 0) {
    return context.invalid("scales of a quantized output", length_of(given.real_scale()));
  }
  FQ_RETURN_IF_ERROR(check_factor_zero_point(context, given.output_zero_point(), dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given.clamp_min(), given.clamp_max(), dtype));
  const bool per_channel = length_of(given.multiplier()) != 1;
  FQ_RETURN_IF_ERROR(
      check_multipliers(context, given.multiplier(), given.shift(), per_channel ? out_c : 1));
  output->multiplier = given.multiplier()->data();
  output->shift = given.shift()->data();
  output->channel_step = per_channel ? 1 : 0;
  output->zero_point = given.output_zero_point();
  output->clamp_min = given.clamp_min();
  output->clamp_max = given.clamp_max();
  return Status();
}

Status check_groups(const OpContext& context, uint32_t groups, uint32_t in_c, uint32_t out_c,
                    uint32_t depth) {
  if (groups == 0 || in_c % groups != 0 || out_c % groups != 0) {
    return context.invalid("groups do not divide the channels", groups, in_c);
  }
  if (depth != in_c / groups) return context.invalid("weight depth", depth, in_c / groups);
  return Status();
}

Status prepare_conv_places(const OpContext& context, const schema::DotParams& given,
                           uint32_t weight_h, uint32_t weight_w, uint32_t out_c, ConvShape* shape,
                           TensorView* x, TensorView* y) {
  FQ_RETURN_IF_ERROR(check_image(context, context.input(0), "input rank", x));
  FQ_RETURN_IF_ERROR(check_image(context, context.output(0), "output rank", y));
  if (x->dim[0] != y->dim[0]) return context.invalid("output batch", y->dim[0], x->dim[0]);
  if (y->dim[3] != out_c) return context.invalid("output channels", y->dim[3], out_c);
  if (given.kernel_h() != weight_h) {
    return context.invalid("kernel_h of the weight", weight_h, given.kernel_h());
  }
  if (given.kernel_w() != weight_w) {
    return context.invalid("kernel_w of the weight", weight_w, given.kernel_w());
  }
  shape->batch = x->dim[0];
  shape->in_c = x->dim[3];
  shape->out_c = out_c;
  return Status();
}

Status prepare_conv_shape(const OpContext& context, const schema::DotParams& given,
                          uint32_t weight_h, uint32_t weight_w, uint32_t out_c, ConvShape* shape) {
  TensorView x;
  TensorView y;
  FQ_RETURN_IF_ERROR(prepare_conv_places(context, given, weight_h, weight_w, out_c, shape, &x, &y));
  FQ_RETURN_IF_ERROR(prepare_conv_axis(context,
                                       {x.dim[1], y.dim[1], given.kernel_h(), given.stride_h(),
                                        given.dilation_h(), given.pad_top(), given.pad_bottom()},
                                       &shape->h));
  return prepare_conv_axis(context,
                           {x.dim[2], y.dim[2], given.kernel_w(), given.stride_w(),
                            given.dilation_w(), given.pad_left(), given.pad_right()},
                           &shape->w);
}

}  // namespace fused_quant
