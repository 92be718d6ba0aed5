// SPDX-License-Identifier: BSD-3-Clause
//
// Bit counting and roots without compiler intrinsics, for all targets alike.
#pragma once

#include <cstdint>

namespace fused_quant {

// Leading zeros of a 32-bit number that is not 0.
constexpr uint32_t leading_zeros(uint32_t value) {
  uint32_t zeros = 0;
  for (uint32_t step = 16; step != 0; step /= 2) {
    if (value >> (32 - step) != 0) continue;
    value <<= step;
    zeros += step;
  }
  return zeros;
}

// The same of a 64-bit number.
constexpr uint32_t leading_zeros(uint64_t value) {
  const uint32_t high = static_cast<uint32_t>(value >> 32);
  return high != 0 ? leading_zeros(high) : 32 + leading_zeros(static_cast<uint32_t>(value));
}

// floor(sqrt(value)), value < 2^62, a bit at a time.
constexpr uint32_t integer_root(uint64_t value) {
  uint64_t root = 0;
  uint64_t rest = value;
  for (uint64_t place = uint64_t{1} << 60; place != 0; place >>= 2) {
    const bool fits = rest >= root + place;
    if (fits) rest -= root + place;
    root = (root >> 1) + (fits ? place : 0);
  }
  return static_cast<uint32_t>(root);
}

static_assert(integer_root(0) == 0 && integer_root(24) == 4 && integer_root(25) == 5 &&
                  integer_root((uint64_t{1} << 62) - 1) == 0x7fffffffu,
              "see above");
static_assert(leading_zeros(uint32_t{1}) == 31 && leading_zeros(~uint32_t{0}) == 0 &&
                  leading_zeros(uint32_t{0x8000}) == 16,
              "see above");

}  // namespace fused_quant
