// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/regrid/regrid.h"

#include "op_check.h"

namespace fused_quant {

Status check_regrid(const OpContext& context, const Regrid& grid, schema::DType dtype) {
  FQ_RETURN_IF_ERROR(check_zero_point(context, grid.input_zero_point, dtype));
  FQ_RETURN_IF_ERROR(check_zero_point(context, grid.zero_point, dtype));
  FQ_RETURN_IF_ERROR(check_multiplier(context, grid.multiplier, static_cast<int32_t>(grid.shift)));
  return check_clamp(context, grid.clamp_min, grid.clamp_max, dtype);
}

AxisSplit split_at(const TensorView& view, uint32_t axis) {
  AxisSplit split;
  for (uint32_t d = 0; d < axis; ++d) split.outer *= view.dim[d];
  split.size = view.dim[axis];
  for (uint32_t d = axis + 1; d < view.rank; ++d) split.inner *= view.dim[d];
  return split;
}

}  // namespace fused_quant
