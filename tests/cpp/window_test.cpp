// SPDX-License-Identifier: BSD-3-Clause
//
// Tap ranges and divisors by arithmetic against tap by tap enumeration.

#include "kernels/window/window.h"

#include <gtest/gtest.h>

namespace fused_quant {
namespace {

void check_window(const WindowAxis& axis, int32_t o) {
  const int32_t start = window_start(axis, o);
  int32_t valid = 0;
  int32_t first = -1;
  uint32_t padded = 0;
  for (int32_t t = 0; t < axis.kernel; ++t) {
    const int32_t at = start + t * axis.dilation;
    if (at >= 0 && at < axis.in) {
      ++valid;
      if (first < 0) first = t;
    }
    if (at < axis.in + axis.pad_after) ++padded;
  }
  const TapRange taps = valid_taps(axis, start);
  ASSERT_GE(taps.begin, 0);
  ASSERT_LE(taps.end, axis.kernel);
  ASSERT_EQ(taps.end - taps.begin, valid);
  if (valid != 0) {
    ASSERT_EQ(taps.begin, first);
    if (axis.dilation == 1) {
      ASSERT_EQ(window_count(axis, o, false), static_cast<uint32_t>(valid));
    }
  }
  if (axis.dilation == 1 && start < axis.in) {
    ASSERT_EQ(window_count(axis, o, true), padded);
  }
}

TEST(Window, TapsAndCountsOfSmallAxes) {
  for (int32_t in = 1; in <= 7; ++in) {
    for (int32_t kernel = 1; kernel <= 5; ++kernel) {
      for (int32_t stride = 1; stride <= 3; ++stride) {
        for (int32_t dilation = 1; dilation <= 3; ++dilation) {
          for (int32_t before = 0; before <= 6; ++before) {
            for (int32_t after = 0; after <= 4; ++after) {
              const int32_t out = (in + before + after) / stride + 1;
              const WindowAxis axis{in, out, kernel, stride, dilation, before, after};
              for (int32_t o = 0; o < out; ++o) check_window(axis, o);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fused_quant
