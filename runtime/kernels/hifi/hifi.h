// SPDX-License-Identifier: BSD-3-Clause
//
// The operations that kernels for Cadence's HiFi 4 DSPs are written with. With Cadence's compiler
// for a core with HiFi 4 they are its intrinsics; everywhere else this header emulates them in
// portable C++, so that the kernels run, bit for bit the same, on hosts and on any Xtensa core.
// Names and semantics are those of the intrinsics, described here in full; the emulation is what is
// tested. The mapping to the real intrinsics has not been run on a HiFi core.
//
// H and L are the upper and the lower lane of an ae_int32x2; lanes of an ae_int16x4 are 3 (first in
// memory) to 0. "Saturating" clamps to the lane's range, everything else wraps.
#pragma once

#include <cstdint>

#if defined(__XTENSA__) && defined(__XCC__)
#include <xtensa/config/core-isa.h>
#endif

#if defined(XCHAL_HAVE_HIFI4) && XCHAL_HAVE_HIFI4
#define FUSED_QUANT_REAL_HIFI 1
#include <xtensa/tie/xt_hifi4.h>
#else
#define FUSED_QUANT_REAL_HIFI 0

namespace fused_quant::hifi {

struct ae_int16x4 {
  int16_t lane[4];  // [0] is lane 3, the first in memory
};

struct ae_int32x2 {
  int32_t h;
  int32_t l;
};

struct ae_int64 {
  int64_t value;
};

namespace detail {

constexpr int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
constexpr uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

constexpr int32_t saturate_32(int64_t value) {
  return value < INT32_MIN ? INT32_MIN
                           : (value > INT32_MAX ? INT32_MAX : static_cast<int32_t>(value));
}

constexpr int16_t saturate_16(int32_t value) {
  return static_cast<int16_t>(value < INT16_MIN ? INT16_MIN
                                                : (value > INT16_MAX ? INT16_MAX : value));
}

// value / 2^shift rounded to nearest, ties towards +infinity. 0 <= shift <= 31.
constexpr int32_t shift_round(int32_t value, int shift) {
  return shift == 0 ? value
                    : static_cast<int32_t>((int64_t{value} + (int64_t{1} << (shift - 1))) >> shift);
}

// value * 2^shift, saturated. 0 <= shift <= 31.
constexpr int32_t shift_up(int32_t value, int shift) {
  return saturate_32(wrap(bits(value) << shift));
}

}  // namespace detail

// Lanes made of, and read as, plain numbers.
inline ae_int32x2 AE_MOVDA32(int32_t both) { return {both, both}; }
inline ae_int32x2 AE_MOVDA32X2(int32_t h, int32_t l) { return {h, l}; }
inline int32_t AE_MOVAD32_H(ae_int32x2 d) { return d.h; }
inline int32_t AE_MOVAD32_L(ae_int32x2 d) { return d.l; }
inline ae_int64 AE_ZERO64() { return {0}; }
// The two halves of 64 bits as lanes H and L.
inline ae_int32x2 AE_MOVINT32X2_FROMINT64(ae_int64 d) {
  return {static_cast<int32_t>(d.value >> 32), static_cast<int32_t>(detail::bits(d.value))};
}

// Four int8 from memory, each in the upper byte of its lane, the lower byte zero; moves the pointer
// on by `bytes`.
inline void AE_L8X4F_IP(ae_int16x4& d, const int8_t*& p, int bytes) {
  for (int i = 0; i < 4; ++i) d.lane[i] = static_cast<int16_t>(p[i] * 256);
  p += bytes;
}

// Every lane shifted right arithmetically. 0 <= shift <= 15.
inline ae_int16x4 AE_SRAI16(ae_int16x4 d, int shift) {
  for (int16_t& lane : d.lane) lane = static_cast<int16_t>(lane >> shift);
  return d;
}

// Quad 16-bit multiply-accumulate: acc += sum over the lanes of a * b, in 64 bits.
inline void AE_MULAAAAQ16(ae_int64& acc, ae_int16x4 a, ae_int16x4 b) {
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += int64_t{a.lane[i]} * b.lane[i];
  acc.value = detail::wrap(detail::bits(acc.value) + detail::bits(sum));
}

// The same without an addend.
inline ae_int64 AE_MULZAAAAQ16(ae_int16x4 a, ae_int16x4 b) {
  ae_int64 acc = AE_ZERO64();
  AE_MULAAAAQ16(acc, a, b);
  return acc;
}

// 32-bit products of one lane pair, in 64 bits.
inline ae_int64 AE_MUL32_HH(ae_int32x2 a, ae_int32x2 b) { return {int64_t{a.h} * b.h}; }
inline ae_int64 AE_MUL32_LL(ae_int32x2 a, ae_int32x2 b) { return {int64_t{a.l} * b.l}; }

// Dual 32-bit multiply-accumulate: acc += a.H * b.H + a.L * b.L.
inline void AE_MULAAD32_HH_LL(ae_int64& acc, ae_int32x2 a, ae_int32x2 b) {
  acc.value = detail::wrap(detail::bits(acc.value) + detail::bits(AE_MUL32_HH(a, b).value) +
                           detail::bits(AE_MUL32_LL(a, b).value));
}

// Wrapping and saturating sums.
inline ae_int64 AE_ADD64(ae_int64 a, ae_int64 b) {
  return {detail::wrap(detail::bits(a.value) + detail::bits(b.value))};
}

inline ae_int64 AE_ADD64S(ae_int64 a, ae_int64 b) {
  const int64_t sum = AE_ADD64(a, b).value;
  const bool overflow = ((a.value ^ sum) & (b.value ^ sum)) < 0;
  return {overflow ? (a.value < 0 ? INT64_MIN : INT64_MAX) : sum};
}

inline ae_int32x2 AE_ADD32S(ae_int32x2 a, ae_int32x2 b) {
  return {detail::saturate_32(int64_t{a.h} + b.h), detail::saturate_32(int64_t{a.l} + b.l)};
}

inline ae_int32x2 AE_SUB32S(ae_int32x2 a, ae_int32x2 b) {
  return {detail::saturate_32(int64_t{a.h} - b.h), detail::saturate_32(int64_t{a.l} - b.l)};
}

inline ae_int16x4 AE_ADD16S(ae_int16x4 a, ae_int16x4 b) {
  for (int i = 0; i < 4; ++i) a.lane[i] = detail::saturate_16(a.lane[i] + b.lane[i]);
  return a;
}

// Both lanes shifted right, rounded to nearest with ties towards +infinity; left, saturating, for a
// negative `shift`. -31 <= shift <= 31.
inline ae_int32x2 AE_SRAA32RS(ae_int32x2 d, int shift) {
  if (shift < 0) return {detail::shift_up(d.h, -shift), detail::shift_up(d.l, -shift)};
  return {detail::shift_round(d.h, shift), detail::shift_round(d.l, shift)};
}

// Both lanes shifted left, saturating. 0 <= shift <= 31.
inline ae_int32x2 AE_SLAA32S(ae_int32x2 d, int shift) { return AE_SRAA32RS(d, -shift); }

// 64 bits shifted right arithmetically, and left. 0 <= shift <= 63.
inline ae_int64 AE_SRAA64(ae_int64 d, int shift) { return {d.value >> shift}; }
inline ae_int64 AE_SLAA64(ae_int64 d, int shift) {
  return {detail::wrap(detail::bits(d.value) << shift)};
}

// Two 64-bit numbers of 32 fractional bits rounded to whole ones, ties towards +infinity,
// saturating: lane H of `a`, lane L of `b`.
inline ae_int32x2 AE_ROUND32X2F64SASYM(ae_int64 a, ae_int64 b) {
  const auto rounded = [](int64_t value) {
    return detail::saturate_32((value >> 32) + ((value >> 31) & 1));
  };
  return {rounded(a.value), rounded(b.value)};
}

inline ae_int64 AE_MIN64(ae_int64 a, ae_int64 b) { return a.value < b.value ? a : b; }
inline ae_int64 AE_MAX64(ae_int64 a, ae_int64 b) { return a.value < b.value ? b : a; }

inline ae_int32x2 AE_MIN32(ae_int32x2 a, ae_int32x2 b) {
  return {a.h < b.h ? a.h : b.h, a.l < b.l ? a.l : b.l};
}

inline ae_int32x2 AE_MAX32(ae_int32x2 a, ae_int32x2 b) {
  return {a.h < b.h ? b.h : a.h, a.l < b.l ? b.l : a.l};
}

}  // namespace fused_quant::hifi

#endif
