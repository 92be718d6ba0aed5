// SPDX-License-Identifier: BSD-3-Clause
//
// Dot products and requantization on HiFi operations: what kernels/dot/dot.h has for scalar code,
// bit for bit.
#pragma once

#include <cstdint>

#include "kernels/dot/dot.h"
#include "kernels/hifi/hifi.h"

namespace fused_quant::hifi {

// A number in 64 bits.
inline ae_int64 widened(int32_t value) { return AE_MUL32_LL(AE_MOVDA32(value), AE_MOVDA32(1)); }

// Four codes as 16-bit lanes; moves the pointer on.
inline ae_int16x4 load_s8x4(const int8_t*& p) {
  ae_int16x4 lanes;
  AE_L8X4F_IP(lanes, p, 4);
  return AE_SRAI16(lanes, 8);
}

// The last `count` < 4 codes, followed by zeros.
inline ae_int16x4 load_rest(const int8_t* p, uint32_t count) {
  int8_t padded[4] = {0, 0, 0, 0};
  for (uint32_t i = 0; i < count; ++i) padded[i] = p[i];
  const int8_t* from = padded;
  return load_s8x4(from);
}

// acc += sum a[i] * b[i]. A product is at most 2^14 and `length` less than 2^32, so that 64 bits
// hold the sum.
inline void accumulate(ae_int64& acc, const int8_t* a, const int8_t* b, uint32_t length) {
  for (; length >= 4; length -= 4) {
    const ae_int16x4 x = load_s8x4(a);
    AE_MULAAAAQ16(acc, x, load_s8x4(b));
  }
  if (length > 0) AE_MULAAAAQ16(acc, load_rest(a, length), load_rest(b, length));
}

// acc += factor * sum b[i]; |factor| <= 128.
inline void accumulate_constant(ae_int64& acc, int32_t factor, const int8_t* b, uint32_t length) {
  ae_int64 sum = AE_ZERO64();
  constexpr int8_t kOnes[4] = {1, 1, 1, 1};
  for (; length >= 4; length -= 4) {
    const int8_t* ones = kOnes;
    const ae_int16x4 x = load_s8x4(ones);
    AE_MULAAAAQ16(sum, x, load_s8x4(b));
  }
  if (length > 0) AE_MULAAAAQ16(sum, load_rest(kOnes, length), load_rest(b, length));
  const int32_t total =
      AE_MOVAD32_L(AE_MOVINT32X2_FROMINT64(sum));  // modulo 2^32, as all sums here
  acc = AE_ADD64(acc, AE_MUL32_LL(AE_MOVDA32(factor), AE_MOVDA32(total)));
}

// DotOutput::code of the accumulator's low 32 bits:
// clamp(zero_point + (acc * m + 2^(s - 1) >> s)). 2 <= s <= 62, so |acc * m| + 2^(s - 1) < 2^63.
inline int8_t code(const DotOutput& output, ae_int64 acc, uint32_t channel) {
  const uint32_t i = channel * output.channel_step;
  const int shift = output.shift[i];
  const ae_int64 product =
      AE_MUL32_LL(AE_MOVINT32X2_FROMINT64(acc), AE_MOVDA32(output.multiplier[i]));
  const ae_int64 half = AE_SLAA64(widened(1), shift - 1);
  ae_int64 value = AE_ADD64(AE_SRAA64(AE_ADD64(product, half), shift), widened(output.zero_point));
  value = AE_MAX64(AE_MIN64(value, widened(output.clamp_max)), widened(output.clamp_min));
  return static_cast<int8_t>(AE_MOVAD32_L(AE_MOVINT32X2_FROMINT64(value)));
}

// DotOutput::store of the accumulator's low 32 bits.
inline void store(const DotOutput& output, void* y, uint32_t index, ae_int64 acc,
                  uint32_t channel) {
  if (output.real_scale != nullptr) {
    const int32_t low = AE_MOVAD32_L(AE_MOVINT32X2_FROMINT64(acc));
    static_cast<float*>(y)[index] = output.real<int8_t>(static_cast<uint32_t>(low), channel);
  } else {
    static_cast<int8_t*>(y)[index] = code(output, acc, channel);
  }
}

}  // namespace fused_quant::hifi
