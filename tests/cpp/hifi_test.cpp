// SPDX-License-Identifier: BSD-3-Clause
//
// The emulated HiFi operations against 128-bit arithmetic, on edges and random numbers.

#include "kernels/hifi/hifi.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace fused_quant::hifi {
namespace {

__extension__ typedef __int128 Wide;

template <typename T>
T clamped(Wide value) {
  const Wide lo = std::numeric_limits<T>::min();
  const Wide hi = std::numeric_limits<T>::max();
  return static_cast<T>(value < lo ? lo : (value > hi ? hi : value));
}

template <typename T>
std::vector<T> numbers() {
  const T lo = std::numeric_limits<T>::min();
  const T hi = std::numeric_limits<T>::max();
  std::vector<T> values = {lo, static_cast<T>(lo + 1), -2, -1, 0, 1, 2, static_cast<T>(hi - 1), hi};
  std::mt19937_64 engine(7);
  for (int i = 0; i < 40; ++i) values.push_back(static_cast<T>(engine()));
  return values;
}

// floor(value / 2^shift), rounded to nearest with ties up: floor(value / 2^shift + 1/2).
Wide rounded(Wide value, int shift) {
  return shift == 0 ? value : (value + (Wide{1} << (shift - 1))) >> shift;
}

TEST(Hifi, SaturatingSums) {
  for (const int32_t a : numbers<int32_t>()) {
    for (const int32_t b : numbers<int32_t>()) {
      const ae_int32x2 sum = AE_ADD32S(AE_MOVDA32X2(a, b), AE_MOVDA32X2(b, b));
      EXPECT_EQ(AE_MOVAD32_H(sum), clamped<int32_t>(Wide{a} + b));
      EXPECT_EQ(AE_MOVAD32_L(sum), clamped<int32_t>(Wide{b} + b));
      const ae_int32x2 difference = AE_SUB32S(AE_MOVDA32(a), AE_MOVDA32X2(b, a));
      EXPECT_EQ(AE_MOVAD32_H(difference), clamped<int32_t>(Wide{a} - b));
      EXPECT_EQ(AE_MOVAD32_L(difference), 0);
      EXPECT_EQ(AE_MOVAD32_H(AE_MIN32(AE_MOVDA32(a), AE_MOVDA32(b))), a < b ? a : b);
      EXPECT_EQ(AE_MOVAD32_L(AE_MAX32(AE_MOVDA32(a), AE_MOVDA32(b))), a < b ? b : a);
    }
  }
  for (const int64_t a : numbers<int64_t>()) {
    for (const int64_t b : numbers<int64_t>()) {
      EXPECT_EQ(AE_ADD64S({a}, {b}).value, clamped<int64_t>(Wide{a} + b));
      EXPECT_EQ(AE_ADD64({a}, {b}).value, static_cast<int64_t>(Wide{a} + b));
      EXPECT_EQ(AE_MIN64({a}, {b}).value, a < b ? a : b);
      EXPECT_EQ(AE_MAX64({a}, {b}).value, a < b ? b : a);
    }
  }
  for (const int16_t a : numbers<int16_t>()) {
    for (const int16_t b : numbers<int16_t>()) {
      const ae_int16x4 sum = AE_ADD16S({{a, b, a, 0}}, {{b, b, 1, a}});
      EXPECT_EQ(sum.lane[0], clamped<int16_t>(Wide{a} + b));
      EXPECT_EQ(sum.lane[1], clamped<int16_t>(Wide{b} + b));
      EXPECT_EQ(sum.lane[2], clamped<int16_t>(Wide{a} + 1));
      EXPECT_EQ(sum.lane[3], a);
    }
  }
}

TEST(Hifi, RoundingShifts) {
  for (const int32_t value : numbers<int32_t>()) {
    for (int shift = 0; shift <= 31; ++shift) {
      const ae_int32x2 right = AE_SRAA32RS(AE_MOVDA32X2(value, 1), shift);
      EXPECT_EQ(AE_MOVAD32_H(right), clamped<int32_t>(rounded(value, shift)));
      EXPECT_EQ(AE_MOVAD32_L(right), clamped<int32_t>(rounded(1, shift)));
      const int32_t left = clamped<int32_t>(Wide{value} * (Wide{1} << shift));
      EXPECT_EQ(AE_MOVAD32_H(AE_SLAA32S(AE_MOVDA32(value), shift)), left);
      EXPECT_EQ(AE_MOVAD32_L(AE_SRAA32RS(AE_MOVDA32(value), -shift)), left);
    }
  }
  for (const int64_t value : numbers<int64_t>()) {
    for (int shift = 0; shift <= 63; ++shift) {
      EXPECT_EQ(AE_SRAA64({value}, shift).value, static_cast<int64_t>(Wide{value} >> shift));
      EXPECT_EQ(AE_SLAA64({value}, shift).value,
                static_cast<int64_t>(Wide{value} * (Wide{1} << shift)));
    }
    const ae_int32x2 whole = AE_ROUND32X2F64SASYM({value}, {1});
    EXPECT_EQ(AE_MOVAD32_H(whole), clamped<int32_t>(rounded(value, 32)));
    EXPECT_EQ(AE_MOVAD32_L(whole), 0);
    const ae_int32x2 halves = AE_MOVINT32X2_FROMINT64({value});
    EXPECT_EQ(AE_MOVAD32_H(halves), static_cast<int32_t>(value >> 32));
    EXPECT_EQ(AE_MOVAD32_L(halves), static_cast<int32_t>(value));
  }
}

TEST(Hifi, MultiplyAccumulate) {
  for (const int16_t a : numbers<int16_t>()) {
    for (const int16_t b : numbers<int16_t>()) {
      ae_int64 acc = {INT64_MAX - 5};
      AE_MULAAAAQ16(acc, {{a, b, a, -1}}, {{b, b, 2, a}});
      const Wide sum = Wide{a} * b + Wide{b} * b + Wide{a} * 2 - a;
      EXPECT_EQ(acc.value, static_cast<int64_t>(sum + (INT64_MAX - 5)));
      EXPECT_EQ(AE_MULZAAAAQ16({{a, b, a, -1}}, {{b, b, 2, a}}).value, static_cast<int64_t>(sum));
    }
  }
  for (const int32_t a : numbers<int32_t>()) {
    for (const int32_t b : numbers<int32_t>()) {
      ae_int64 acc = {-3};
      AE_MULAAD32_HH_LL(acc, AE_MOVDA32X2(a, b), AE_MOVDA32X2(b, b));
      EXPECT_EQ(acc.value, static_cast<int64_t>(Wide{a} * b + Wide{b} * b - 3));
      EXPECT_EQ(AE_MUL32_LL(AE_MOVDA32X2(7, a), AE_MOVDA32X2(9, b)).value, int64_t{a} * b);
      EXPECT_EQ(AE_MUL32_HH(AE_MOVDA32X2(a, 7), AE_MOVDA32X2(b, 9)).value, int64_t{a} * b);
    }
  }
}

TEST(Hifi, LoadsOfFourCodes) {
  const int8_t codes[8] = {-128, -1, 0, 127, 5, 6, 7, 8};
  const int8_t* p = codes;
  ae_int16x4 lanes;
  AE_L8X4F_IP(lanes, p, 4);
  EXPECT_EQ(p, codes + 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(lanes.lane[i], codes[i] * 256);
  const ae_int16x4 extended = AE_SRAI16(lanes, 8);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(extended.lane[i], codes[i]);
}

}  // namespace
}  // namespace fused_quant::hifi
