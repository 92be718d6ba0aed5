// SPDX-License-Identifier: BSD-3-Clause
//
// Sliding windows along one axis, for convolutions and pools. Output o looks at the input positions
// start(o) + t * dilation, start(o) = o * stride - pad_before, for taps t = 0 .. kernel - 1; those
// inside [0, in) are valid.
#pragma once

#include <cstdint>

#include "op.h"
#include "status.h"

namespace fused_quant {

// Bounds that keep all window arithmetic within int32 and preparation short.
constexpr uint32_t kMaxWindowAttribute = 65535;  // kernel, stride, dilation, each padding
constexpr int64_t kMaxWindowExtent = int64_t{1}
                                     << 30;  // in + pads, and (kernel - 1) * dilation + 1

struct WindowAxis {
  int32_t in;
  int32_t out;
  int32_t kernel;
  int32_t stride;
  int32_t dilation;
  int32_t pad_before;
  int32_t pad_after;
};

struct TapRange {
  int32_t begin;
  int32_t end;  // exclusive; == begin when the window misses the input
};

inline int32_t window_start(const WindowAxis& axis, int32_t o) {
  return o * axis.stride - axis.pad_before;
}

// The valid taps of the window at `start`.
inline TapRange valid_taps(const WindowAxis& axis, int32_t start) {
  // Divisions only where a window leaves the input.
  int32_t begin = 0;
  int32_t end = axis.kernel;
  if (start < 0) {
    begin = (-start + axis.dilation - 1) / axis.dilation;
    if (begin > axis.kernel) begin = axis.kernel;
  }
  if (start + (axis.kernel - 1) * axis.dilation >= axis.in) {
    end = start >= axis.in ? 0 : (axis.in - start + axis.dilation - 1) / axis.dilation;
  }
  return {begin, end > begin ? end : begin};
}

// The divisor of an average along this axis (dilation 1): valid taps, or taps inside the input and
// its explicit padding, never those that a rounded-up output size hangs over the padding.
inline uint32_t window_count(const WindowAxis& axis, int32_t o, bool include_pad) {
  const int32_t start = window_start(axis, o);
  if (!include_pad) {
    const TapRange taps = valid_taps(axis, start);
    return static_cast<uint32_t>(taps.end - taps.begin);
  }
  const int32_t limit = axis.in + axis.pad_after - start;
  return static_cast<uint32_t>(limit < axis.kernel ? limit : axis.kernel);
}

// Attributes of one axis as they come.
struct WindowAttributes {
  uint32_t in;
  uint32_t out;
  uint32_t kernel;
  uint32_t stride;
  uint32_t dilation;
  uint32_t pad_before;
  uint32_t pad_after;
};

// For convolutions: out == floor((in + pads - extent) / stride) + 1, extent = (kernel - 1) *
// dilation + 1 <= in + pads. Windows may miss the input (all taps padded).
Status prepare_conv_axis(const OpContext& context, const WindowAttributes& given, WindowAxis* axis);

// For transposed convolutions: out == (in - 1) * stride + extent - pads + output_padding.
Status prepare_transposed_axis(const OpContext& context, const WindowAttributes& given,
                               uint32_t output_padding, WindowAxis* axis);

// For pools: the size of convolutions, or that with the quotient rounded up (ceil_mode) as long as
// the last window starts inside the input or the padding before it. Every window has a valid tap.
Status prepare_pool_axis(const OpContext& context, const WindowAttributes& given, WindowAxis* axis);

}  // namespace fused_quant
