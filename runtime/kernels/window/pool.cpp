// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/window/pool.h"

#include "op_check.h"

namespace fused_quant {

Status prepare_pool_shape(const OpContext& context, PoolShape* shape) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  FQ_RETURN_IF_ERROR(check_rank(context, x, 4, "input rank"));
  FQ_RETURN_IF_ERROR(check_rank(context, y, 4, "output rank"));
  if (x.dim[0] != y.dim[0]) return context.invalid("output batch", y.dim[0], x.dim[0]);
  if (x.dim[3] != y.dim[3]) return context.invalid("output channels", y.dim[3], x.dim[3]);
  *shape = PoolShape{x.dim[0], x.dim[3], x.dim[1], x.dim[2], y.dim[1], y.dim[2]};
  return Status();
}

Status prepare_pool_axes(const OpContext& context, const PoolShape& shape,
                         const schema::WindowParams& given, WindowAxis* h, WindowAxis* w) {
  FQ_RETURN_IF_ERROR(prepare_pool_axis(context,
                                       {shape.in_h, shape.out_h, given.kernel_h(), given.stride_h(),
                                        given.dilation_h(), given.pad_top(), given.pad_bottom()},
                                       h));
  return prepare_pool_axis(context,
                           {shape.in_w, shape.out_w, given.kernel_w(), given.stride_w(),
                            given.dilation_w(), given.pad_left(), given.pad_right()},
                           w);
}

}  // namespace fused_quant
