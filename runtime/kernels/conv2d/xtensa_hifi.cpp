// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/conv2d/conv2d.h"
#include "kernels/hifi/dot.h"

namespace fused_quant {
namespace {

using hifi::ae_int64;

// A row of the window of one output channel: codes, or zero points where it is outside the input.
// `x` is the row's first code in the input's first column.
void accumulate_row(const Conv2dParams& p, ae_int64& acc, const int8_t* x, int32_t left,
                    uint32_t depth, const int8_t* weight) {
  const WindowAxis& w = p.shape.w;
  for (int32_t k = 0; k < w.kernel; ++k, weight += depth) {
    const int32_t column = left + k * w.dilation;
    if (column >= 0 && column < w.in) {
      hifi::accumulate(acc, x + static_cast<uint32_t>(column) * p.shape.in_c, weight, depth);
    } else {
      hifi::accumulate_constant(acc, p.input_zero_point, weight, depth);
    }
  }
}

// The accumulator of one output channel. `x` is the image's first code of the channel's group.
ae_int64 accumulate_window(const Conv2dParams& p, ae_int64 acc, const int8_t* x, int32_t top,
                           int32_t left, uint32_t depth, const int8_t* weight) {
  const WindowAxis& h = p.shape.h;
  const uint32_t image_row = static_cast<uint32_t>(p.shape.w.in) * p.shape.in_c;
  const uint32_t weight_row = static_cast<uint32_t>(p.shape.w.kernel) * depth;
  for (int32_t k = 0; k < h.kernel; ++k, weight += weight_row) {
    const int32_t row = top + k * h.dilation;
    if (row >= 0 && row < h.in) {
      accumulate_row(p, acc, x + static_cast<uint32_t>(row) * image_row, left, depth, weight);
    } else {
      hifi::accumulate_constant(acc, p.input_zero_point, weight, weight_row);
    }
  }
  return acc;
}

}  // namespace

void conv2d_s8_xtensa_hifi(const Step& step) {
  const auto& p = step.params<Conv2dParams>();
  const int8_t* x = step.input<int8_t>(0);
  const int8_t* weight = step.input<int8_t>(1);
  const int32_t* bias = p.has_bias ? step.input<int32_t>(2) : nullptr;
  void* y = step.output<void>(0);
  uint32_t index = 0;
  const WindowAxis& h = p.shape.h;
  const WindowAxis& w = p.shape.w;
  const uint32_t image = static_cast<uint32_t>(h.in * w.in) * p.shape.in_c;
  const uint32_t depth = p.shape.in_c / p.groups;
  const uint32_t per_group = p.shape.out_c / p.groups;
  const uint32_t kernel = static_cast<uint32_t>(h.kernel * w.kernel) * depth;
  for (uint32_t b = 0; b < p.shape.batch; ++b, x += image) {
    for (int32_t oy = 0; oy < h.out; ++oy) {
      for (int32_t ox = 0; ox < w.out; ++ox, index += p.shape.out_c) {
        for (uint32_t o = 0; o < p.shape.out_c; ++o) {
          const ae_int64 start = hifi::widened(bias == nullptr ? 0 : bias[o]);
          const ae_int64 acc =
              accumulate_window(p, start, x + o / per_group * depth, window_start(h, oy),
                                window_start(w, ox), depth, weight + o * kernel);
          hifi::store(p.output, y, index + o, acc, o);
        }
      }
    }
  }
}

}  // namespace fused_quant
