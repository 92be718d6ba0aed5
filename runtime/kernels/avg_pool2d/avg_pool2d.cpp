// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/avg_pool2d/avg_pool2d.h"

#include "op_check.h"

namespace fused_quant {
namespace {

// Pairs of different row and column counts that are looked up in the table one by one.
constexpr uint32_t kMaxDivisorPairs = 65536;

// How often the count changes along the axis, plus one.
uint32_t count_runs(const WindowAxis& axis, bool include_pad) {
  uint32_t runs = 1;
  for (int32_t o = 1; o < axis.out; ++o) {
    if (window_count(axis, o, include_pad) != window_count(axis, o - 1, include_pad)) ++runs;
  }
  return runs;
}

// Every divisor that occurs is positive and in the table, if there is one. Along an axis the counts
// rise, stay, and fall, so there are few different pairs.
Status check_divisors(const OpContext& context, const AvgPool2dParams& p) {
  if (p.divisor_override != 0) return check_divisor(context, p.average, p.divisor_override);
  // Without a table any divisor from 1 to kernel_h * kernel_w will do, which 32 bits hold.
  if (p.average.table_size == 0) {
    return check_divisor(
        context, p.average,
        uint64_t{1} * static_cast<uint32_t>(p.h.kernel) * static_cast<uint32_t>(p.w.kernel));
  }
  if (p.h.out > static_cast<int32_t>(kMaxWindowAttribute) ||
      p.w.out > static_cast<int32_t>(kMaxWindowAttribute)) {
    return context.invalid("output too large for a table of divisors",
                           p.h.out > p.w.out ? p.h.out : p.w.out, kMaxWindowAttribute);
  }
  const bool include = p.count_include_pad;
  const uint64_t pairs = uint64_t{count_runs(p.h, include)} * count_runs(p.w, include);
  if (pairs > kMaxDivisorPairs) {
    return context.invalid("too many different divisors", static_cast<int64_t>(pairs),
                           kMaxDivisorPairs);
  }
  uint32_t last_h = 0;
  for (int32_t oy = 0; oy < p.h.out; ++oy) {
    const uint32_t count_h = window_count(p.h, oy, include);
    if (count_h == last_h) continue;
    last_h = count_h;
    uint32_t last_w = 0;
    for (int32_t ox = 0; ox < p.w.out; ++ox) {
      const uint32_t count_w = window_count(p.w, ox, include);
      if (count_w == last_w) continue;
      last_w = count_w;
      FQ_RETURN_IF_ERROR(check_divisor(context, p.average, uint64_t{count_h} * count_w));
    }
  }
  return Status();
}

template <typename T>
void avg_pool2d(const Step& step) {
  const auto& p = step.params<AvgPool2dParams>();
  const T* x = step.input<T>(0);
  T* y = step.output<T>(0);
  int32_t* acc = static_cast<int32_t*>(step.scratch);
  const uint32_t channels = p.shape.channels;
  const uint32_t row = p.shape.in_w * channels;
  for (uint32_t b = 0; b < p.shape.batch; ++b, x += p.shape.in_h * row) {
    for (int32_t oy = 0; oy < p.h.out; ++oy) {
      const int32_t top = window_start(p.h, oy);
      const TapRange rows = valid_taps(p.h, top);
      const uint32_t count_h = window_count(p.h, oy, p.count_include_pad);
      const T* x_row = x + static_cast<uint32_t>(top + rows.begin) * row;
      for (int32_t ox = 0; ox < p.w.out; ++ox, y += channels) {
        const int32_t left = window_start(p.w, ox);
        const TapRange columns = valid_taps(p.w, left);
        const uint32_t count_w = window_count(p.w, ox, p.count_include_pad);
        sum_rectangle(x_row + static_cast<uint32_t>(left + columns.begin) * channels,
                      rows.end - rows.begin, columns.end - columns.begin, row, channels, channels,
                      p.average.input_zero_point, acc);
        const uint32_t n = p.divisor_override != 0 ? p.divisor_override : count_h * count_w;
        store_average(p.average, n, acc, channels, y);
      }
    }
  }
}

}  // namespace

Status prepare_avg_pool2d(const OpContext& context, void* params, Prepared* prepared) {
  auto* p = new_params<AvgPool2dParams>(params, prepared);
  FQ_RETURN_IF_ERROR(prepare_pool_shape(context, &p->shape));
  const auto* given = context.params<schema::WindowParams>();
  if (given == nullptr) return context.invalid("avg_pool2d without WindowParams");
  FQ_RETURN_IF_ERROR(prepare_pool_axes(context, p->shape, *given, &p->h, &p->w));
  if (p->h.dilation != 1 || p->w.dilation != 1) {
    return context.invalid("avg_pool2d with dilation", given->dilation_h(), 1);
  }
  FQ_RETURN_IF_ERROR(prepare_average(context, *given, &p->average));
  const uint64_t rows = given->kernel_h() < p->shape.in_h ? given->kernel_h() : p->shape.in_h;
  const uint64_t columns = given->kernel_w() < p->shape.in_w ? given->kernel_w() : p->shape.in_w;
  FQ_RETURN_IF_ERROR(
      check_sum(context, rows * columns, context.input(0).dtype, given->input_zero_point()));
  p->count_include_pad = given->count_include_pad();
  p->divisor_override = given->divisor_override();
  FQ_RETURN_IF_ERROR(check_divisors(context, *p));
  prepared->scratch_bytes = uint64_t{p->shape.channels} * sizeof(int32_t);
  return Status();
}

void avg_pool2d_s8_scalar(const Step& step) { avg_pool2d<int8_t>(step); }
void avg_pool2d_s16_scalar(const Step& step) { avg_pool2d<int16_t>(step); }

}  // namespace fused_quant
