// SPDX-License-Identifier: BSD-3-Clause
//
// The float32 arithmetic of the quantize and dequantize boundary, on bit patterns. The result is
// the IEEE 754 one with round to nearest even, whatever the C rounding mode, flush-to-zero setting,
// contraction or excess precision of the program around us, and with or without an FPU.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fused_quant {

constexpr uint32_t kFloatSign = 0x80000000u;
constexpr uint32_t kFloatInfinity = 0x7f800000u;
constexpr uint32_t kFloatNan = 0x7fc00000u;
constexpr uint32_t kFloatMantissa = 0x007fffffu;
constexpr uint32_t kFloatImplicit = 0x00800000u;

inline uint32_t float_bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float float_from_bits(uint32_t bits) {
  float value = 0.0f;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// True for scales in [2^-126, 2^126]: they and their reciprocals are normal numbers. Bit patterns
// of positive floats are ordered as the numbers are; NaN and negative numbers lie above.
inline bool is_scale(float value) {
  const uint32_t bits = float_bits(value);
  return bits >= kFloatImplicit && bits <= 0x7e800000u;
}

// value >> shift, rounded half to even. 1 <= shift <= 63.
constexpr uint64_t shift_half_even(uint64_t value, uint32_t shift) {
  const uint64_t quotient = value >> shift;
  const uint64_t rest = value & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return quotient + ((rest > half || (rest == half && (quotient & 1) != 0)) ? 1 : 0);
}

// A finite non-zero magnitude as mantissa * 2^(exponent - 150), mantissa in [2^23, 2^24).
struct FloatParts {
  uint32_t mantissa;
  int32_t exponent;
};

constexpr FloatParts float_parts(uint32_t magnitude) {
  uint32_t mantissa = magnitude & kFloatMantissa;
  int32_t exponent = static_cast<int32_t>(magnitude >> 23);
  if (exponent != 0) return {mantissa | kFloatImplicit, exponent};
  exponent = 1;
  while ((mantissa & kFloatImplicit) == 0) {
    mantissa <<= 1;
    --exponent;
  }
  return {mantissa, exponent};
}

// a * b.
constexpr uint32_t multiply_f32(uint32_t a, uint32_t b) {
  const uint32_t sign = (a ^ b) & kFloatSign;
  const uint32_t x = a & ~kFloatSign;
  const uint32_t y = b & ~kFloatSign;
  if (x > kFloatInfinity || y > kFloatInfinity) return kFloatNan;
  if (x == 0 || y == 0) {
    return (x == kFloatInfinity || y == kFloatInfinity) ? kFloatNan : sign;
  }
  if (x == kFloatInfinity || y == kFloatInfinity) return sign | kFloatInfinity;
  const FloatParts p = float_parts(x);
  const FloatParts q = float_parts(y);
  uint64_t product = uint64_t{p.mantissa} * q.mantissa;  // in [2^46, 2^48)
  int32_t exponent = p.exponent + q.exponent - 126;      // of a product in [2^47, 2^48)
  if ((product >> 47) == 0) {
    product <<= 1;
    --exponent;
  }
  if (exponent >= 255) return sign | kFloatInfinity;
  if (exponent >= 1) {
    // The implicit bit adds one to the exponent field, and so does a mantissa rounded up to 2^24;
    // from the largest exponent that gives infinity, as it must.
    return sign | ((static_cast<uint32_t>(exponent - 1) << 23) +
                   static_cast<uint32_t>(shift_half_even(product, 24)));
  }
  // Subnormal: one rounding of the exact product, at the fixed place value 2^-149. Beyond a shift
  // of 49 everything is below one half.
  const int32_t shift = 25 - exponent;
  return sign | static_cast<uint32_t>(
                    shift_half_even(product, static_cast<uint32_t>(shift > 63 ? 63 : shift)));
}

// The integer, of 32 or 64 bits, as a float.
template <typename Integer>
constexpr uint32_t float_of_integer(Integer value) {
  using Magnitude = std::make_unsigned_t<Integer>;
  constexpr uint32_t kBits = 8 * sizeof(Integer);
  if (value == 0) return 0;
  const uint32_t sign = value < 0 ? kFloatSign : 0;
  Magnitude magnitude = static_cast<Magnitude>(value);
  if (value < 0) magnitude = Magnitude{0} - magnitude;
  uint32_t exponent = 127 + kBits - 1;
  for (; (magnitude >> (kBits - 1)) == 0; magnitude <<= 1) --exponent;
  // The implicit bit adds one to the exponent field, and so does a mantissa rounded up to 2^24.
  return sign |
         (((exponent - 1) << 23) + static_cast<uint32_t>(shift_half_even(magnitude, kBits - 24)));
}

// float(acc) * scale: the real value of an accumulator, int32_t or int64_t.
template <typename Integer>
float real_product(Integer acc, float scale) {
  return float_from_bits(multiply_f32(float_of_integer(acc), float_bits(scale)));
}

// min(max(round_half_even(value), lo), hi), with NaN as 0. -2^24 < lo <= hi < 2^24, so that
// clamping before or after the rounding is the same.
constexpr int32_t round_to_range(uint32_t bits, int32_t lo, int32_t hi) {
  const uint32_t magnitude = bits & ~kFloatSign;
  const bool negative = (bits & kFloatSign) != 0;
  int32_t rounded = 0;
  if (magnitude <= kFloatInfinity) {
    const uint32_t exponent = magnitude >> 23;
    if (exponent >= 127 + 24) return negative ? lo : hi;
    if (exponent >= 126) {  // below, the magnitude is less than one half
      const uint32_t mantissa = (magnitude & kFloatMantissa) | kFloatImplicit;
      const uint32_t shift = 150 - exponent;
      rounded = static_cast<int32_t>(shift == 0 ? mantissa : shift_half_even(mantissa, shift));
      if (negative) rounded = -rounded;
    }
  }
  return rounded < lo ? lo : (rounded > hi ? hi : rounded);
}

}  // namespace fused_quant
