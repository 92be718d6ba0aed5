// SPDX-License-Identifier: BSD-3-Clause
//
// What the three pools share: operands x and q, both s8 or both s16
// [batch, height, width, channels].
#pragma once

#include <cstdint>

#include "kernels/window/window.h"
#include "op.h"
#include "status.h"

namespace fused_quant {

struct PoolShape {
  uint32_t batch;
  uint32_t channels;
  uint32_t in_h;
  uint32_t in_w;
  uint32_t out_h;
  uint32_t out_w;
};

// Checks operand counts, dtypes, ranks and that batch and channels agree.
Status prepare_pool_shape(const OpContext& context, PoolShape* shape);

// Both axes of a pool with a kernel.
Status prepare_pool_axes(const OpContext& context, const PoolShape& shape,
                         const schema::WindowParams& given, WindowAxis* h, WindowAxis* w);

// acc[c] = -count * zero_point + sum of x[c] over the rectangle of taps, rows and columns `step_h`
// and `step_w` elements apart. The sum of differences fits int32 (check_sum), so it never
// overflows, whatever the order.
template <typename T>
void sum_rectangle(const T* x, int32_t rows, int32_t columns, uint32_t step_h, uint32_t step_w,
                   uint32_t channels, int32_t zero_point, int32_t* acc) {
  const int32_t start = -rows * columns * zero_point;
  for (uint32_t c = 0; c < channels; ++c) acc[c] = start;
  for (int32_t r = 0; r < rows; ++r) {
    const T* tap = x + static_cast<uint32_t>(r) * step_h;
    for (int32_t k = 0; k < columns; ++k, tap += step_w) {
      for (uint32_t c = 0; c < channels; ++c) acc[c] += tap[c];
    }
  }
}

}  // namespace fused_quant
