// SPDX-License-Identifier: BSD-3-Clause
//
// What the compiler calls for arithmetic that the lx106 has no instruction for and its libgcc does
// not hold: 64-bit products, divisions, and the float of an int. Dividing by zero gives all ones.
#include <cstdint>

extern "C" {
uint64_t __muldi3(uint64_t a, uint64_t b);
uint32_t __udivsi3(uint32_t a, uint32_t b);
uint32_t __umodsi3(uint32_t a, uint32_t b);
int32_t __divsi3(int32_t a, int32_t b);
int32_t __modsi3(int32_t a, int32_t b);
uint64_t __udivdi3(uint64_t a, uint64_t b);
uint64_t __umoddi3(uint64_t a, uint64_t b);
int64_t __divdi3(int64_t a, int64_t b);
int64_t __moddi3(int64_t a, int64_t b);
float __floatsisf(int32_t value);
}

namespace {

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
uint64_t join(uint32_t upper, uint32_t lower) { return uint64_t{upper} << 32 | lower; }

// The exact product of 32-bit numbers, from products of 16-bit halves. No sum overflows: each is at
// most (2^16 - 1)^2 + 2 * (2^16 - 1) < 2^32.
uint64_t multiply_32(uint32_t a, uint32_t b) {
  const uint32_t a0 = a & 0xFFFFu;
  const uint32_t a1 = a >> 16;
  const uint32_t b0 = b & 0xFFFFu;
  const uint32_t b1 = b >> 16;
  const uint32_t p00 = a0 * b0;
  const uint32_t middle = a1 * b0 + (p00 >> 16);
  const uint32_t other = a0 * b1 + (middle & 0xFFFFu);
  return join(a1 * b1 + (middle >> 16) + (other >> 16), other << 16 | (p00 & 0xFFFFu));
}

template <typename T>
struct Division {
  T quotient;
  T remainder;
};

// Long division, one bit at a time from the divisor's place at the dividend's leading bit.
template <typename T>
Division<T> divide(T a, T b) {
  constexpr T kTop = static_cast<T>(T{1} << (sizeof(T) * 8 - 1));
  T quotient = 0;
  T place = 1;
  while (b < a && (b & kTop) == 0 && b != 0) {
    b = static_cast<T>(b << 1);
    place = static_cast<T>(place << 1);
  }
  while (place != 0) {
    if (a >= b) {
      a = static_cast<T>(a - b);
      quotient = static_cast<T>(quotient | place);
    }
    place = static_cast<T>(place >> 1);
    b = static_cast<T>(b >> 1);
  }
  return {quotient, a};
}

// C's division of signed numbers: the quotient truncated, the remainder with the sign of `a`.
template <typename Unsigned, typename Signed>
Division<Signed> divide_signed(Signed a, Signed b) {
  const auto magnitude = [](Signed value) {
    const auto bits = static_cast<Unsigned>(value);
    return value < 0 ? static_cast<Unsigned>(0 - bits) : bits;
  };
  const Division<Unsigned> d = divide(magnitude(a), magnitude(b));
  const auto quotient = (a < 0) != (b < 0) ? static_cast<Unsigned>(0 - d.quotient) : d.quotient;
  const auto remainder = a < 0 ? static_cast<Unsigned>(0 - d.remainder) : d.remainder;
  return {static_cast<Signed>(quotient), static_cast<Signed>(remainder)};
}

}  // namespace

// Modulo 2^64, so the same for signed numbers.
uint64_t __muldi3(uint64_t a, uint64_t b) {
  const uint64_t product = multiply_32(low(a), low(b));
  return join(high(product) + low(a) * high(b) + high(a) * low(b), low(product));
}

uint32_t __udivsi3(uint32_t a, uint32_t b) { return divide(a, b).quotient; }
uint32_t __umodsi3(uint32_t a, uint32_t b) { return divide(a, b).remainder; }
int32_t __divsi3(int32_t a, int32_t b) { return divide_signed<uint32_t>(a, b).quotient; }
int32_t __modsi3(int32_t a, int32_t b) { return divide_signed<uint32_t>(a, b).remainder; }
uint64_t __udivdi3(uint64_t a, uint64_t b) { return divide(a, b).quotient; }
uint64_t __umoddi3(uint64_t a, uint64_t b) { return divide(a, b).remainder; }
int64_t __divdi3(int64_t a, int64_t b) { return divide_signed<uint64_t>(a, b).quotient; }
int64_t __moddi3(int64_t a, int64_t b) { return divide_signed<uint64_t>(a, b).remainder; }

// Rounded to nearest, ties to even.
float __floatsisf(int32_t value) {
  union {
    uint32_t bits;
    float number;
  } result;
  const auto given = static_cast<uint32_t>(value);
  uint32_t magnitude = value < 0 ? 0 - given : given;
  result.bits = 0;
  if (magnitude != 0) {
    uint32_t exponent = 127 + 31;
    while ((magnitude & 0x80000000u) == 0) {
      magnitude <<= 1;
      --exponent;
    }
    const uint32_t rest = magnitude & 0xFFu;
    const uint32_t mantissa = magnitude >> 8;
    const uint32_t up = rest > 0x80u || (rest == 0x80u && (mantissa & 1u) != 0) ? 1u : 0u;
    // The implicit bit adds one to the exponent field; so does a carry out of the mantissa.
    result.bits = (value < 0 ? 0x80000000u : 0u) | (((exponent - 1) << 23) + mantissa + up);
  }
  return result.number;
}
