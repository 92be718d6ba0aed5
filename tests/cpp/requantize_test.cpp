// SPDX-License-Identifier: BSD-3-Clause
//
// The scalar contract against 128-bit integers, which need no bound and no case distinction.

#include "numerics/requantize.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace fused_quant {
namespace {

__extension__ using Wide = __int128;

constexpr int32_t kAccMin = INT32_MIN;
constexpr int32_t kAccMax = INT32_MAX;

// floor((acc * m + 2^(s-1)) / 2^s) by division, not by shifting.
Wide exact(int32_t acc, int32_t m, uint32_t s) {
  const Wide divisor = Wide{1} << s;
  const Wide numerator = Wide{acc} * m + divisor / 2;
  Wide quotient = numerator / divisor;
  if (numerator % divisor < 0) --quotient;
  return quotient;
}

int32_t exact_code(int32_t acc, int32_t m, uint32_t s, int32_t zero_point, int32_t lo, int32_t hi) {
  const Wide value = exact(acc, m, s) + zero_point;
  return static_cast<int32_t>(value < lo ? Wide{lo} : (value > hi ? Wide{hi} : value));
}

void check(int32_t acc, int32_t m, uint32_t s) {
  ASSERT_EQ(Wide{rescale(acc, m, s)}, exact(acc, m, s)) << acc << " " << m << " " << s;
  ASSERT_EQ(Wide{rescale_full(acc, m, s)}, exact(acc, m, s)) << acc << " " << m << " " << s;
  for (const int32_t zero_point : {-128, -1, 0, 37, 127}) {
    ASSERT_EQ(requantize(acc, m, s, zero_point, -128, 127),
              exact_code(acc, m, s, zero_point, -128, 127))
        << acc << " " << m << " " << s << " " << zero_point;
  }
  ASSERT_EQ(requantize(acc, m, s, 0, -32768, 32767), exact_code(acc, m, s, 0, -32768, 32767));
}

TEST(Requantize, EdgesOfEveryArgument) {
  const int32_t accs[] = {
      kAccMin, kAccMin + 1, -(1 << 30) - 1, -(1 << 30),    -65537,      -3,     -2, -1, 0, 1, 2,
      3,       65537,       1 << 30,        (1 << 30) + 1, kAccMax - 1, kAccMax};
  const int32_t multipliers[] = {
      0, 1, 2, 3, 1 << 29, (1 << 30) - 1, 1 << 30, (1 << 30) + 1, kAccMax - 1, kAccMax};
  for (uint32_t s = kMinShift; s <= kMaxShift; ++s) {
    for (const int32_t acc : accs) {
      for (const int32_t m : multipliers) check(acc, m, s);
    }
  }
}

TEST(Requantize, RandomArguments) {
  std::mt19937 random(20240601);
  std::uniform_int_distribution<int32_t> acc(kAccMin, kAccMax);
  std::uniform_int_distribution<int32_t> multiplier(0, kAccMax);
  std::uniform_int_distribution<uint32_t> shift(kMinShift, kMaxShift);
  std::uniform_int_distribution<int> bits(0, 31);
  for (int i = 0; i < 200000; ++i) {
    check(acc(random) >> bits(random), multiplier(random) >> bits(random), shift(random));
  }
}

TEST(Requantize, TiesGoUp) {
  // acc * 2^30 / 2^s with s = 31: every odd accumulator is a tie.
  for (int32_t acc = -1001; acc <= 1001; acc += 2) {
    ASSERT_EQ(rescale(acc, 1 << 30, 31), (acc + 1) / 2 - (acc < -1 && (acc + 1) % 2 != 0 ? 1 : 0))
        << acc;
    check(acc, 1 << 30, 31);
    check(acc, 1 << 30, 40);
  }
}

// Two roundings (a doubling high multiply, then a shift) give 1 and 2 here; one rounding 0 and 1.
TEST(Requantize, RoundsOnce) {
  EXPECT_EQ(rescale(1, 1 << 30, 32), 0);
  EXPECT_EQ(rescale(5, 1 << 30, 32), 1);
  const int32_t quarter[] = {-2, -2, -1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2};
  for (int32_t acc = -8; acc <= 8; ++acc) {
    EXPECT_EQ(rescale(acc, 1 << 30, 32), quarter[acc + 8]) << acc;
  }
}

TEST(Requantize, LargeRatiosSaturateToTheRightRail) {
  EXPECT_EQ(requantize(kAccMax, kAccMax, 31, 0, -128, 127), 127);
  EXPECT_EQ(requantize(kAccMin, kAccMax, 31, 0, -128, 127), -128);
  EXPECT_EQ(requantize(kAccMax, kAccMax, 2, 127, -128, 127), 127);
  EXPECT_EQ(requantize(kAccMin, kAccMax, 2, -128, -128, 127), -128);
  EXPECT_EQ(requantize(1, 1 << 30, 2, 0, -128, 127), 127);
  EXPECT_EQ(rescale(kAccMax, kAccMax, 31), 2147483646);
}

TEST(Requantize, OneIsTheIdentity) {
  for (int32_t acc = -300; acc <= 300; ++acc) EXPECT_EQ(rescale(acc, 1 << 30, 30), acc);
  EXPECT_EQ(rescale(kAccMin, 1 << 30, 30), kAccMin);
  EXPECT_EQ(rescale(kAccMax, 1 << 30, 30), kAccMax);
}

TEST(Requantize, ZeroMultiplierGivesTheZeroPoint) {
  for (const int32_t acc : {kAccMin, -1, 0, 1, kAccMax}) {
    EXPECT_EQ(requantize(acc, 0, 31, -7, -128, 127), -7);
    EXPECT_EQ(requantize(acc, 0, 62, -7, -128, 127), -7);
  }
}

TEST(RequantizeWide, EdgesAndRandomAccumulators) {
  std::mt19937_64 random(20261201);
  const int32_t multipliers[] = {0, 1 << 30, (1 << 30) + 1, 3 << 29, kAccMax - 1, kAccMax};
  const int64_t edges[] = {INT64_MIN,
                           INT64_MAX,
                           INT64_MIN + 1,
                           int64_t{1} << 31,
                           int64_t{1} << 32,
                           -(int64_t{1} << 31) - 1,
                           -1,
                           0,
                           1};
  for (uint32_t s = kMinShift; s <= kMaxShift; ++s) {
    for (const int32_t m : multipliers) {
      for (int i = 0; i < 200; ++i) {
        // Of every magnitude; every fourth one is an exact half for multipliers that are powers
        // of 2.
        int64_t acc = static_cast<int64_t>(random()) >> (random() % 63);
        if (i % 4 == 0 && s > 31) {
          const uint64_t odd = (static_cast<uint64_t>(acc >> (s - 31)) << 1) + 1;
          acc = static_cast<int64_t>(odd << (s - 31));
        }
        if (i < 9) acc = edges[i];
        const Wide divisor = Wide{1} << s;
        const Wide numerator = Wide{acc} * m + divisor / 2;
        const Wide value = numerator / divisor - (numerator % divisor < 0 ? 1 : 0);
        const Wide code = value < -32768 ? Wide{-32768} : (value > 32767 ? Wide{32767} : value);
        ASSERT_EQ(Wide{requantize_wide(acc, m, s, -32768, 32767)}, code)
            << acc << " " << m << " " << s;
      }
    }
  }
}

TEST(DivideHalfAway, EveryRemainder) {
  for (int32_t n = 1; n <= 50; ++n) {
    for (int32_t sum = -500; sum <= 500; ++sum) {
      // |sum| / n + 1 / 2, rounded down, in halves.
      const int32_t magnitude = (2 * (sum < 0 ? -sum : sum) + n) / (2 * n);
      ASSERT_EQ(divide_half_away(sum, static_cast<uint32_t>(n)), sum < 0 ? -magnitude : magnitude)
          << sum << " / " << n;
    }
  }
  EXPECT_EQ(divide_half_away(-10, 4), -3);
  EXPECT_EQ(divide_half_away(10, 4), 3);
}

TEST(DivideHalfAway, LargestArguments) {
  EXPECT_EQ(divide_half_away(kAccMax, 1), kAccMax);
  EXPECT_EQ(divide_half_away(-kAccMax, 1), -kAccMax);
  EXPECT_EQ(divide_half_away(kAccMax, kAccMax), 1);
  EXPECT_EQ(divide_half_away(-kAccMax, kAccMax), -1);
  EXPECT_EQ(divide_half_away((kAccMax - 1) / 2, kAccMax), 0);
  EXPECT_EQ(divide_half_away((kAccMax - 1) / 2 + 1, kAccMax), 1);
}

}  // namespace
}  // namespace fused_quant
