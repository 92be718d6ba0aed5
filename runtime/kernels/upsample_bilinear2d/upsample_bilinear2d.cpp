// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/upsample_bilinear2d/upsample_bilinear2d.h"

#include "kernels/regrid/regrid.h"
#include "op_check.h"

namespace fused_quant {
namespace {

// [out, 3] constants: two positions below `in`, and a weight.
Status check_table(const OpContext& context, const TensorView& table, uint32_t in, uint32_t out) {
  FQ_RETURN_IF_ERROR(check_dtype(context, table, schema::DType_s32, "table dtype"));
  if (table.data == nullptr) return context.invalid("table is no constant");
  if (table.rank != 2 || table.dim[0] != out || table.dim[1] != 3) {
    return context.invalid("table size", table.count(), int64_t{out} * 3);
  }
  const int32_t* entry = static_cast<const int32_t*>(table.data);
  for (uint32_t i = 0; i < out; ++i, entry += 3) {
    for (uint32_t k = 0; k < 2; ++k) {
      if (entry[k] < 0 || static_cast<uint32_t>(entry[k]) >= in) {
        return context.invalid("table position", entry[k], in);
      }
    }
    if (entry[2] < 0 || entry[2] > kBilinearOne) {
      return context.invalid("table weight", entry[2], kBilinearOne);
    }
  }
  return Status();
}

Status check_axes(const OpContext& context, const flatbuffers::Vector<uint8_t>* axes,
                  const TensorView& x, const TensorView& y) {
  if (length_of(axes) != 2) return context.invalid("number of axes", length_of(axes), 2);
  const uint32_t rows = axes->Get(0);
  if (axes->Get(1) != rows + 1) return context.invalid("axis of columns", axes->Get(1), rows + 1);
  if (rows + 1 >= x.rank) return context.invalid("axis of rows", rows, x.rank);
  FQ_RETURN_IF_ERROR(check_rank(context, y, x.rank, "output rank"));
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d != rows && d != rows + 1 && x.dim[d] != y.dim[d]) {
      return context.invalid("output size", y.dim[d], x.dim[d]);
    }
  }
  return Status();
}

int8_t code_of(const UpsampleBilinear2dParams& p, int32_t upper, int32_t lower, int32_t weight,
               const int8_t*) {
  return static_cast<int8_t>(requantize((kBilinearOne - weight) * upper + weight * lower,
                                        p.multiplier, p.shift, p.output_zero_point, p.clamp_min,
                                        p.clamp_max));
}

int16_t code_of(const UpsampleBilinear2dParams& p, int32_t upper, int32_t lower, int32_t weight,
                const int16_t*) {
  const int64_t acc = int64_t{kBilinearOne - weight} * upper + int64_t{weight} * lower;
  return static_cast<int16_t>(
      requantize_wide(acc, p.multiplier, p.shift, p.clamp_min, p.clamp_max));
}

// One output row.
template <typename T>
void upsample_row(const UpsampleBilinear2dParams& p, const T* x, const int32_t* row,
                  const int32_t* column, T* y) {
  const uint32_t pitch = p.in_w * p.inner;
  const T* top = x + static_cast<uint32_t>(row[0]) * pitch;
  const T* bottom = x + static_cast<uint32_t>(row[1]) * pitch;
  for (uint32_t j = 0; j < p.out_w; ++j, column += 3, y += p.inner) {
    const uint32_t left = static_cast<uint32_t>(column[0]) * p.inner;
    const uint32_t right = static_cast<uint32_t>(column[1]) * p.inner;
    for (uint32_t c = 0; c < p.inner; ++c) {
      const int32_t u = row[2];
      const int32_t v = column[2];
      const int32_t upper = (kBilinearOne - v) * (top[left + c] - p.input_zero_point) +
                            v * (top[right + c] - p.input_zero_point);
      const int32_t lower = (kBilinearOne - v) * (bottom[left + c] - p.input_zero_point) +
                            v * (bottom[right + c] - p.input_zero_point);
      y[c] = code_of(p, upper, lower, u, y);
    }
  }
}

template <typename T>
void upsample(const Step& step) {
  const auto& p = step.params<UpsampleBilinear2dParams>();
  const T* x = step.input<T>(0);
  const int32_t* rows = step.input<int32_t>(1);
  const int32_t* columns = step.input<int32_t>(2);
  T* y = step.output<T>(0);
  for (uint32_t o = 0; o < p.outer; ++o, x += p.in_h * p.in_w * p.inner) {
    for (uint32_t i = 0; i < p.out_h; ++i, y += p.out_w * p.inner) {
      upsample_row(p, x, rows + 3 * i, columns, y);
    }
  }
}

}  // namespace

Status prepare_upsample_bilinear2d(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 3, 3, 1));
  const auto* given = context.params<schema::ReduceParams>();
  if (given == nullptr) return context.invalid("upsample_bilinear2d without ReduceParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, y, "output dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, x, y.dtype, "input dtype"));
  FQ_RETURN_IF_ERROR(check_axes(context, given->axes(), x, y));
  const uint32_t rows = given->axes()->Get(0);
  FQ_RETURN_IF_ERROR(check_table(context, context.input(1), x.dim[rows], y.dim[rows]));
  FQ_RETURN_IF_ERROR(check_table(context, context.input(2), x.dim[rows + 1], y.dim[rows + 1]));
  const Regrid grid{given->input_zero_point(),  given->multiplier(), given->shift(),
                    given->output_zero_point(), given->clamp_min(),  given->clamp_max()};
  FQ_RETURN_IF_ERROR(check_regrid(context, grid, y.dtype));
  if (y.dtype == schema::DType_s16 && grid.zero_point != 0) {
    return context.invalid("zero point of 16-bit codes", grid.zero_point, 0);
  }
  auto* p = new_params<UpsampleBilinear2dParams>(params, prepared);
  p->outer = split_at(x, rows).outer;
  p->in_h = x.dim[rows];
  p->in_w = x.dim[rows + 1];
  p->out_h = y.dim[rows];
  p->out_w = y.dim[rows + 1];
  p->inner = split_at(x, rows + 1).inner;
  p->input_zero_point = grid.input_zero_point;
  p->multiplier = grid.multiplier;
  p->shift = grid.shift;
  p->output_zero_point = grid.zero_point;
  p->clamp_min = grid.clamp_min;
  p->clamp_max = grid.clamp_max;
  return Status();
}

void upsample_bilinear2d_s8_scalar(const Step& step) { upsample<int8_t>(step); }
void upsample_bilinear2d_s16_scalar(const Step& step) { upsample<int16_t>(step); }

}  // namespace fused_quant
