// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/dot/dot.h"

#include "op_check.h"

namespace fused_quant {

Status check_dot_operands(const OpContext& context) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 3, 1));
  FQ_RETURN_IF_ERROR(check_dtype(context, context.input(0), schema::DType_s8, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, context.input(1), schema::DType_s8, "weight dtype"));
  return check_dtype(context, context.output(0), schema::DType_s8, "output dtype");
}

Status prepare_dot(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                   DotOutput* output) {
  if (context.has_input(2)) {
    const TensorView bias = context.input(2);
    FQ_RETURN_IF_ERROR(check_dtype(context, bias, schema::DType_s32, "bias dtype"));
    if (bias.count() != out_c) return context.invalid("bias length", bias.count(), out_c);
  }
  FQ_RETURN_IF_ERROR(check_zero_point(context, given.input_zero_point(), schema::DType_s8));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given.output_zero_point(), schema::DType_s8));
  FQ_RETURN_IF_ERROR(check_clamp(context, given.clamp_min(), given.clamp_max(), schema::DType_s8));
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

Status prepare_conv_shape(const OpContext& context, const schema::DotParams& given,
                          uint32_t weight_h, uint32_t weight_w, uint32_t out_c, ConvShape* shape) {
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_rank(context, x, 4, "input rank"));
  FQ_RETURN_IF_ERROR(check_rank(context, y, 4, "output rank"));
  if (x.dim[0] != y.dim[0]) return context.invalid("output batch", y.dim[0], x.dim[0]);
  if (y.dim[3] != out_c) return context.invalid("output channels", y.dim[3], out_c);
  if (given.kernel_h() != weight_h) {
    return context.invalid("kernel_h of the weight", weight_h, given.kernel_h());
  }
  if (given.kernel_w() != weight_w) {
    return context.invalid("kernel_w of the weight", weight_w, given.kernel_w());
  }
  shape->batch = x.dim[0];
  shape->in_c = x.dim[3];
  shape->out_c = out_c;
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
