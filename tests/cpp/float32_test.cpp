// SPDX-License-Identifier: BSD-3-Clause
//
// The float32 arithmetic on bit patterns against the processor's, whose default rounding mode is
// the one wanted, and the same results with the processor's rounding mode changed.

#include "numerics/float32.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace fused_quant {
namespace {

// 32 random bits, in the type that the functions take.
class RandomBits {
 public:
  explicit RandomBits(uint32_t seed) : engine_(seed) {}
  uint32_t operator()() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<uint32_t> edge_patterns() {
  std::vector<uint32_t> patterns;
  const uint32_t mantissas[] = {0, 1, 2, 0x3fffff, 0x400000, 0x400001, 0x7ffffe, 0x7fffff};
  for (const uint32_t exponent :
       {0u,   1u,   2u,   23u,  24u,  25u,  63u,  102u, 103u, 125u, 126u,
        127u, 128u, 149u, 150u, 151u, 152u, 190u, 230u, 253u, 254u, 255u}) {
    for (const uint32_t mantissa : mantissas) {
      patterns.push_back(exponent << 23 | mantissa);
      patterns.push_back(kFloatSign | exponent << 23 | mantissa);
    }
  }
  return patterns;
}

void check_product(uint32_t a, uint32_t b) {
  const volatile float x = float_from_bits(a);
  const volatile float y = float_from_bits(b);
  const float expected = x * y;
  const uint32_t got = multiply_f32(a, b);
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(float_from_bits(got))) << std::hex << a << " " << b;
  } else {
    ASSERT_EQ(got, float_bits(expected)) << std::hex << a << " " << b;
  }
}

TEST(MultiplyF32, Edges) {
  const std::vector<uint32_t> patterns = edge_patterns();
  for (const uint32_t a : patterns) {
    for (const uint32_t b : patterns) check_product(a, b);
  }
}

TEST(MultiplyF32, RandomPatterns) {
  RandomBits random(7);
  for (int i = 0; i < 1000000; ++i) check_product(random(), random());
}

// Products near the smallest normal number, where the place of the rounding changes.
TEST(MultiplyF32, Subnormals) {
  RandomBits random(8);
  for (int i = 0; i < 300000; ++i) {
    const uint32_t e = 1 + random() % 125;
    const uint32_t f = 126 - e + random() % 6;
    check_product(e << 23 | (random() & kFloatMantissa), f << 23 | (random() & kFloatMantissa));
  }
}

int32_t expected_code(float value, int32_t lo, int32_t hi) {
  if (std::isnan(value)) value = 0.0f;
  const float rounded = std::nearbyint(value);  // half to even in the default mode
  if (rounded < static_cast<float>(lo)) return lo;
  if (rounded > static_cast<float>(hi)) return hi;
  return static_cast<int32_t>(rounded);
}

TEST(RoundToRange, EdgesAndHalves) {
  for (const uint32_t bits : edge_patterns()) {
    ASSERT_EQ(round_to_range(bits, -128, 127), expected_code(float_from_bits(bits), -128, 127));
    ASSERT_EQ(round_to_range(bits, 0, 16777215), expected_code(float_from_bits(bits), 0, 16777215));
  }
  for (int32_t k = -70000; k <= 70000; ++k) {
    const float half = static_cast<float>(k) / 2;
    for (const float value :
         {half, std::nextafter(half, kInfinity), std::nextafter(half, -kInfinity)}) {
      ASSERT_EQ(round_to_range(float_bits(value), -32768, 32767),
                expected_code(value, -32768, 32767))
          << value;
    }
  }
}

TEST(RoundToRange, NanIsZeroAndInfinitiesAreTheBounds) {
  EXPECT_EQ(round_to_range(kFloatNan, -128, 127), 0);
  EXPECT_EQ(round_to_range(kFloatNan | kFloatSign | 1, -128, 127), 0);
  EXPECT_EQ(round_to_range(kFloatNan, 3, 127), 3);
  EXPECT_EQ(round_to_range(float_bits(kInfinity), -128, 127), 127);
  EXPECT_EQ(round_to_range(float_bits(-kInfinity), -128, 127), -128);
  EXPECT_EQ(round_to_range(float_bits(1e30f), -128, 127), 127);
  EXPECT_EQ(round_to_range(float_bits(-4294967296.0f), -128, 127), -128);
}

TEST(RoundToRange, TiesGoToEven) {
  const float values[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -126.5f};
  const int32_t codes[] = {0, 2, 2, 0, -2, -2, 126, -126};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(round_to_range(float_bits(values[i]), -128, 127), codes[i]) << values[i];
  }
}

TEST(Float32, IndependentOfTheRoundingMode) {
  RandomBits random(9);
  std::vector<uint32_t> a(20000), b(20000);
  std::vector<uint32_t> products(a.size());
  std::vector<int32_t> codes(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = (random() & (kFloatSign | kFloatMantissa)) | (120 + random() % 16) << 23;
    b[i] = (random() & kFloatMantissa) | 127u << 23;
    products[i] = multiply_f32(a[i], b[i]);
    codes[i] = round_to_range(a[i], -128, 127);
  }
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    bool same = true;
    for (size_t i = 0; i < a.size(); ++i) {
      same = same && multiply_f32(a[i], b[i]) == products[i];
      same = same && round_to_range(a[i], -128, 127) == codes[i];
    }
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(same) << mode;
  }
}

TEST(Float32, ScaleRange) {
  EXPECT_TRUE(is_scale(1.0f));
  EXPECT_TRUE(is_scale(0x1p-126f));
  EXPECT_TRUE(is_scale(0x1p126f));
  EXPECT_FALSE(is_scale(std::nextafter(0x1p-126f, 0.0f)));
  EXPECT_FALSE(is_scale(std::nextafter(0x1p126f, kInfinity)));
  EXPECT_FALSE(is_scale(0.0f));
  EXPECT_FALSE(is_scale(-1.0f));
  EXPECT_FALSE(is_scale(kInfinity));
  EXPECT_FALSE(is_scale(std::numeric_limits<float>::quiet_NaN()));
}

}  // namespace
}  // namespace fused_quant
