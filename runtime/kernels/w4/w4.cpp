// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/w4/w4.h"

#include "op_check.h"

namespace fused_quant {
namespace {

Status check_group_multipliers(const OpContext& context, const schema::DotParams& given,
                               uint32_t out_c, uint32_t groups) {
  const uint64_t expected = uint64_t{out_c} * groups;
  if (length_of(given.multiplier()) != expected) {
    return context.invalid("number of multipliers", length_of(given.multiplier()),
                           static_cast<int64_t>(expected));
  }
  if (length_of(given.shift()) != out_c) {
    return context.invalid("number of shifts", length_of(given.shift()), out_c);
  }
  for (uint32_t i = 0; i < expected; ++i) {
    FQ_RETURN_IF_ERROR(
        check_multiplier(context, given.multiplier()->Get(i), given.shift()->Get(i / groups)));
  }
  return Status();
}

Status prepare_grouped(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                       DotOutput* output) {
  FQ_RETURN_IF_ERROR(
      check_dtype(context, context.output(0), schema::DType_s8, "output dtype of groups"));
  if (length_of(given.real_scale()) != 0) {
    return context.invalid("scales of a quantized output", length_of(given.real_scale()));
  }
  if (context.has_input(2)) {
    const TensorView bias = context.input(2);
    if (bias.count() != out_c) return context.invalid("bias length", bias.count(), out_c);
  }
  FQ_RETURN_IF_ERROR(check_zero_point(context, given.input_zero_point(), schema::DType_s8));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given.output_zero_point(), schema::DType_s8));
  FQ_RETURN_IF_ERROR(check_clamp(context, given.clamp_min(), given.clamp_max(), schema::DType_s8));
  output->multiplier = given.multiplier()->data();
  output->shift = given.shift()->data();
  output->zero_point = given.output_zero_point();
  output->clamp_min = given.clamp_min();
  output->clamp_max = given.clamp_max();
  return Status();
}

}  // namespace

Status check_w4_operands(const OpContext& context, const schema::DotParams& given) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 2, 3, 1));
  FQ_RETURN_IF_ERROR(check_dtype(context, context.input(0), schema::DType_s8, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, context.input(1), schema::DType_s4, "weight dtype"));
  if (context.has_input(2)) {
    const schema::DType wanted = given.group_size() == 0 ? schema::DType_s32 : schema::DType_s64;
    FQ_RETURN_IF_ERROR(check_dtype(context, context.input(2), wanted, "bias dtype"));
  }
  if (context.output(0).dtype == schema::DType_f32) return Status();
  return check_dtype(context, context.output(0), schema::DType_s8, "output dtype");
}

Status prepare_w4(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                  uint32_t depth, W4Output* output) {
  const uint32_t size = given.group_size();
  output->has_bias = context.has_input(2);
  output->grouped = size != 0;
  output->group_size = size == 0 ? depth : size;
  output->groups = 1;
  if (size == 0) return prepare_dot(context, given, out_c, &output->dot);
  if (depth % size != 0) {
    return context.invalid("groups do not divide the weight's channels", size, depth);
  }
  output->groups = depth / size;
  FQ_RETURN_IF_ERROR(check_group_multipliers(context, given, out_c, output->groups));
  return prepare_grouped(context, given, out_c, &output->dot);
}

}  // namespace fused_quant
