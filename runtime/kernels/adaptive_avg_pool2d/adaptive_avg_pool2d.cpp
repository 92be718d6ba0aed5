// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/adaptive_avg_pool2d/adaptive_avg_pool2d.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// Sizes up to 65535 keep (i + 1) * in within 32 bits.
constexpr uint32_t kMaxAdaptiveSize = 65535;

uint32_t range_begin(uint32_t i, uint32_t in, uint32_t out) { return i * in / out; }
uint32_t range_end(uint32_t i, uint32_t in, uint32_t out) { return ((i + 1) * in + out - 1) / out; }

struct Counts {
  uint32_t least;
  uint32_t most;
};

// The sizes of the windows along one axis. They are within 2 of each other: both ends of a window
// are rounded outwards by less than one.
Counts axis_counts(uint32_t in, uint32_t out) {
  Counts counts{in, 0};
  for (uint32_t i = 0; i < out; ++i) {
    const uint32_t count = range_end(i, in, out) - range_begin(i, in, out);
    if (count < counts.least) counts.least = count;
    if (count > counts.most) counts.most = count;
  }
  return counts;
}

bool has_count(uint32_t in, uint32_t out, uint32_t wanted) {
  for (uint32_t i = 0; i < out; ++i) {
    if (range_end(i, in, out) - range_begin(i, in, out) == wanted) return true;
  }
  return false;
}

Status check_divisors(const OpContext& context, const PoolShape& shape, const Average& average) {
  const Counts rows = axis_counts(shape.in_h, shape.out_h);
  const Counts columns = axis_counts(shape.in_w, shape.out_w);
  FQ_RETURN_IF_ERROR(check_sum(context, uint64_t{rows.most} * columns.most, context.input(0).dtype,
                               average.input_zero_point));
  for (uint32_t h = rows.least; h <= rows.most; ++h) {
    if (!has_count(shape.in_h, shape.out_h, h)) continue;
    for (uint32_t w = columns.least; w <= columns.most; ++w) {
      if (!has_count(shape.in_w, shape.out_w, w)) continue;
      FQ_RETURN_IF_ERROR(check_divisor(context, average, uint64_t{h} * w));
    }
  }
  return Status();
}

template <typename T>
void adaptive_avg_pool2d(const Step& step) {
  const auto& p = step.params<AdaptiveAvgPool2dParams>();
  const T* x = step.input<T>(0);
  T* y = step.output<T>(0);
  int32_t* acc = static_cast<int32_t*>(step.scratch);
  const PoolShape& s = p.shape;
  const uint32_t row = s.in_w * s.channels;
  for (uint32_t b = 0; b < s.batch; ++b, x += s.in_h * row) {
    for (uint32_t oy = 0; oy < s.out_h; ++oy) {
      const uint32_t top = range_begin(oy, s.in_h, s.out_h);
      const uint32_t rows = range_end(oy, s.in_h, s.out_h) - top;
      for (uint32_t ox = 0; ox < s.out_w; ++ox, y += s.channels) {
        const uint32_t left = range_begin(ox, s.in_w, s.out_w);
        const uint32_t columns = range_end(ox, s.in_w, s.out_w) - left;
        sum_rectangle(x + top * row + left * s.channels, static_cast<int32_t>(rows),
                      static_cast<int32_t>(columns), row, s.channels, s.channels,
                      p.average.input_zero_point, acc);
        store_average(p.average, rows * columns, acc, s.channels, y);
      }
    }
  }
}

}  // namespace

Status prepare_adaptive_avg_pool2d(const OpContext& context, void* params, Prepared* prepared) {
  auto* p = new_params<AdaptiveAvgPool2dParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_pool_shape(context, &p->shape));
  const auto* given = context.params<schema::WindowParams>();
  if (given == nullptr) return context.invalid("adaptive_avg_pool2d without WindowParams");
  const uint32_t sizes[] = {p->shape.in_h, p->shape.in_w, p->shape.out_h, p->shape.out_w};
  for (const uint32_t size : sizes) {
    if (size > kMaxAdaptiveSize) return context.invalid("axis too long", size, kMaxAdaptiveSize);
  }
  FQ_RETURN_IF_ERROR(prepare_average(context, *given, &p->average));
  FQ_RETURN_IF_ERROR(check_divisors(context, p->shape, p->average));
  prepared->scratch_bytes = uint64_t{p->shape.channels} * sizeof(int32_t);
  return Status();
}

void adaptive_avg_pool2d_s8_scalar(const Step& step) { adaptive_avg_pool2d<int8_t>(step); }
void adaptive_avg_pool2d_s16_scalar(const Step& step) { adaptive_avg_pool2d<int16_t>(step); }

}  // namespace fused_quant
