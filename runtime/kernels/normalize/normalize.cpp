// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/normalize/normalize.h"

#include "kernels/reduce/reduce.h"
#include "op_check.h"

namespace fused_quant {
namespace {

// The shape that axes refer to: `sizes` if given, else that of x. It has x's number of elements.
Status read_sizes(const OpContext& context, const flatbuffers::Vector<uint32_t>* sizes,
                  TensorView* x) {
  if (length_of(sizes) == 0) return Status();
  if (length_of(sizes) > kMaxRank) {
    return context.invalid("number of sizes", length_of(sizes), kMaxRank);
  }
  const uint32_t count = x->count();
  uint64_t product = 1;
  x->rank = static_cast<uint8_t>(length_of(sizes));
  for (uint32_t d = 0; d < x->rank; ++d) {
    x->dim[d] = sizes->Get(d);
    product *= x->dim[d];  // both factors are below 2^32
    if (product == 0 || product > count) break;
  }
  if (product != count) {
    return context.invalid("product of sizes", static_cast<int64_t>(product), count);
  }
  return Status();
}

}  // namespace

Status prepare_rows(const OpContext& context, const schema::NormalizeParams& given,
                    uint32_t longest, NormalizeRows* rows) {
  TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  if (x.count() != y.count()) return context.invalid("output elements", y.count(), x.count());
  FQ_RETURN_IF_ERROR(read_sizes(context, given.sizes(), &x));
  uint32_t axes = 0;
  uint32_t affine = 0;
  FQ_RETURN_IF_ERROR(read_axes(context, given.axes(), x.rank, &axes));
  FQ_RETURN_IF_ERROR(read_axes(context, given.affine_axes(), x.rank, &affine));
  rows->length = rows->affine = 1;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if ((axes >> d & 1u) != 0) rows->length *= x.dim[d];
    if ((affine >> d & 1u) != 0) rows->affine *= x.dim[d];
  }
  if (rows->length > longest) return context.invalid("elements of a row", rows->length, longest);
  uint32_t stride = x.count();
  uint32_t affine_stride = rows->affine;
  for (uint32_t d = 0; d < x.rank; ++d) {
    const bool is_affine = (affine >> d & 1u) != 0;
    stride /= x.dim[d];
    if (is_affine) affine_stride /= x.dim[d];
    ((axes >> d & 1u) != 0 ? rows->elements : rows->starts)
        .append(x.dim[d], {stride, is_affine ? affine_stride : 0});
  }
  rows->starts.finish();
  rows->elements.finish();
  return Status();
}

Status prepare_normalize_output(const OpContext& context, const schema::NormalizeParams& given,
                                NormalizeOutput* output) {
  const schema::DType dtype = context.output(0).dtype;
  FQ_RETURN_IF_ERROR(check_multiplier(context, given.output_multiplier(), given.output_shift()));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given.output_zero_point(), dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given.clamp_min(), given.clamp_max(), dtype));
  output->multiplier = given.output_multiplier();
  output->shift = given.output_shift();
  output->zero_point = given.output_zero_point();
  output->clamp_min = given.clamp_min();
  output->clamp_max = given.clamp_max();
  return Status();
}

Status check_constant(const OpContext& context, uint32_t index, schema::DType dtype,
                      uint32_t length) {
  const TensorView table = context.input(index);
  FQ_RETURN_IF_ERROR(check_dtype(context, table, dtype, "dtype of a constant"));
  if (table.data == nullptr) return context.invalid("input is no constant", index);
  if (table.count() != length) {
    return context.invalid("elements of a constant", table.count(), length);
  }
  return Status();
}

Status check_split_decay(const OpContext& context, uint32_t index) {
  FQ_RETURN_IF_ERROR(check_constant(context, index, schema::DType_s32, 512));
  const auto* table = static_cast<const int32_t*>(context.input(index).data);
  FQ_RETURN_IF_ERROR(check_decay<int32_t>(context, table, 256, 1 << 30));
  return check_decay<int32_t>(context, table + 256, 256, 1 << 30);
}

}  // namespace fused_quant
