// SPDX-License-Identifier: BSD-3-Clause
//
// The one rounding of the project, in C++ (numerics.py holds the same functions in Python):
//
//   rescale:    R(acc; m, s) = (acc * m + 2^(s - 1)) >> s        ties towards +infinity
//   requantize: min(max(zero_point + R(acc; m, s), lo), hi)
//
// for every int32 acc, 0 <= m < 2^31 and 2 <= s <= 62. No option selects another rounding. For
// 64-bit accumulators there is requantize_wide.
#pragma once

#include <cstdint>

namespace fused_quant {

static_assert((int64_t{-1} >> 1) == -1, "right shifts of negative numbers must floor");

constexpr int32_t kMinShift = 2;
constexpr int32_t kMaxShift = 62;

constexpr int32_t clamp(int32_t value, int32_t lo, int32_t hi) {
  return value < lo ? lo : (value > hi ? hi : value);
}

// hi32(acc * m) + 2^(s - 33), shifted by s - 32: equals R for s >= 33, since the rounding term is
// then a multiple of 2^32 and the low word cannot carry. |hi32| <= 2^30 and the rounding term is at
// most 2^29, so 32 bits hold the sum.
constexpr int32_t rescale_high(int32_t acc, int32_t multiplier, uint32_t shift) {
  const int32_t high = static_cast<int32_t>((int64_t{acc} * multiplier) >> 32);
  return (high + (int32_t{1} << (shift - 33))) >> (shift - 32);
}

// |acc * m| <= 2^31 * (2^31 - 1) < 2^62 and the rounding term is at most 2^61: int64 holds the sum.
constexpr int64_t rescale_full(int32_t acc, int32_t multiplier, uint32_t shift) {
  return (int64_t{acc} * multiplier + (int64_t{1} << (shift - 1))) >> shift;
}

constexpr int64_t rescale(int32_t acc, int32_t multiplier, uint32_t shift) {
  return shift >= 33 ? rescale_high(acc, multiplier, shift) : rescale_full(acc, multiplier, shift);
}

// |zero_point| <= 2^15; lo <= hi. Most shifts are 33 and more (ratios below 1/4), where all but the
// product is 32-bit.
constexpr int32_t requantize(int32_t acc, int32_t multiplier, uint32_t shift, int32_t zero_point,
                             int32_t lo, int32_t hi) {
  if (shift >= 33) return clamp(rescale_high(acc, multiplier, shift) + zero_point, lo, hi);
  const int64_t value = rescale_full(acc, multiplier, shift) + zero_point;
  return value < lo ? lo : (value > hi ? hi : static_cast<int32_t>(value));
}

// R of any 64-bit acc, for shifts of 33 and more: the rounding term is then a multiple of 2^32, so
// that the low 32 bits of the 96-bit product cannot carry. |acc >> 32| * m <= 2^62 - 2^31.
constexpr int64_t rescale_wide_high(int64_t acc, int32_t multiplier, uint32_t shift) {
  const uint64_t low = uint64_t{static_cast<uint32_t>(acc)} * static_cast<uint32_t>(multiplier);
  const int64_t high = (acc >> 32) * multiplier + static_cast<int64_t>(low >> 32);
  return (high + (int64_t{1} << (shift - 33))) >> (shift - 32);
}

// min(max(R(acc; m, s), lo), hi) of any 64-bit acc. With a shift below 33, acc saturates to int32
// first. Multipliers of 2^30 and more, and 0, are exact all the same: what saturates is then beyond
// any code.
constexpr int32_t requantize_wide(int64_t acc, int32_t multiplier, uint32_t shift, int32_t lo,
                                  int32_t hi) {
  if (shift < 33) {
    const int64_t least = INT32_MIN;
    const int64_t most = INT32_MAX;
    const int64_t narrow = acc < least ? least : (acc > most ? most : acc);
    return requantize(static_cast<int32_t>(narrow), multiplier, shift, 0, lo, hi);
  }
  const int64_t value = rescale_wide_high(acc, multiplier, shift);
  return value < lo ? lo : (value > hi ? hi : static_cast<int32_t>(value));
}

// R64(sum; s) = (sum + 2^(s - 1)) >> s of a sum of products that were each formed with a multiplier
// of their own. An ahead-of-time rule keeps |sum| within 2^62; what a payload that lies makes of it
// wraps. |zero_point| <= 2^15; lo <= hi.
constexpr int32_t requantize_products(uint64_t sum, uint32_t shift, int32_t zero_point, int32_t lo,
                                      int32_t hi) {
  const int64_t rounded = static_cast<int64_t>(sum + (uint64_t{1} << (shift - 1)));
  const int64_t value = (rounded >> shift) + zero_point;
  return value < lo ? lo : (value > hi ? hi : static_cast<int32_t>(value));
}

// sum / n rounded half away from zero. |sum| <= 2^31 - 1 and 1 <= n <= 2^31 - 1, so that
// |sum| + n / 2 fits uint32. For odd n the halved n is rounded down, which is exact: there are no
// ties, and the next multiple of n is at least half a unit away.
constexpr int32_t divide_half_away(int32_t sum, uint32_t n) {
  const uint32_t magnitude = sum < 0 ? 0u - static_cast<uint32_t>(sum) : static_cast<uint32_t>(sum);
  const int32_t quotient = static_cast<int32_t>((magnitude + n / 2) / n);
  return sum < 0 ? -quotient : quotient;
}

}  // namespace fused_quant
