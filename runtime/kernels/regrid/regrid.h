// SPDX-License-Identifier: BSD-3-Clause
//
// Codes of one quantization to codes of another, a row at a time: what operators share that move
// elements and may have other parameters on both sides.
//
//   q = clamp(zero_point + R(x - input_zero_point; multiplier, shift), clamp_min, clamp_max)
#pragma once

#include <cstdint>
#include <cstring>

#include "numerics/requantize.h"
#include "op.h"

namespace fused_quant {

struct Regrid {
  int32_t input_zero_point;
  int32_t multiplier;
  uint32_t shift;
  int32_t zero_point;
  int32_t clamp_min;
  int32_t clamp_max;

  // True if no code of type T changes: ratio 1, one zero point, bounds that are no bounds.
  template <typename T>
  bool is_copy() const {
    return multiplier == int32_t{1} << 30 && shift == 30 && input_zero_point == zero_point &&
           clamp_min == INT32_C(0) - (INT32_C(1) << (8 * sizeof(T) - 1)) &&
           clamp_max == (INT32_C(1) << (8 * sizeof(T) - 1)) - 1;
  }

  // |x - input_zero_point| < 2^17 for codes of 8 and 16 bits.
  template <typename T>
  void row(const T* x, T* y, uint32_t length) const {
    if (is_copy<T>()) {
      std::memcpy(y, x, length * sizeof(T));
      return;
    }
    for (uint32_t i = 0; i < length; ++i) {
      y[i] = static_cast<T>(
          requantize(x[i] - input_zero_point, multiplier, shift, zero_point, clamp_min, clamp_max));
    }
  }
};

// Zero points, multiplier and bounds of `grid`, for codes of `dtype`.
Status check_regrid(const OpContext& context, const Regrid& grid, schema::DType dtype);

// The dimensions of a tensor around one of them: dim = [outer..., size, inner...].
struct AxisSplit {
  uint32_t outer = 1;
  uint32_t size = 1;
  uint32_t inner = 1;
};

// axis < view.rank
AxisSplit split_at(const TensorView& view, uint32_t axis);

}  // namespace fused_quant
