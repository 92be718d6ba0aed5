// SPDX-License-Identifier: BSD-3-Clause
//
// What the operators with weights of 4 bits share. Without groups of input channels their
// arithmetic is that of weights of 8 bits (dot.h). With groups, each group g of an output channel
// has a sum and a multiplier of its own, and one shift serves the channel:
//
//   acc[g] = sum over the group of x * weight
//   q = clamp(zero_point + R64(bias + sum over g of acc[g] * multiplier[g]; shift))
//
// R64(v; s) = (v + 2^(s - 1)) >> s. The bias (s64) is folded ahead of time:
// m * b - input_zero_point * sum over g of multiplier[g] * sum(weight[g]), m the largest
// multiplier. |b| + sum |weight| * max |x - input_zero_point| <= 2^31 - 1 is the rule ahead of
// time, and multipliers are below 2^31, so that the sum stays below 2^62. Accumulators and sum
// wrap, as those of dot.h.
#pragma once

#include <cstdint>

#include "kernels/dot/dot.h"
#include "numerics/requantize.h"
#include "op.h"
#include "status.h"

namespace fused_quant {

// Code `index` of an s4 tensor: 4 bits in two's complement, an even index in the low half of a
// byte.
inline int32_t code_s4(const uint8_t* packed, uint32_t index) {
  const uint32_t bits = (packed[index / 2] >> (index % 2 * 4)) & 15u;
  return static_cast<int32_t>(bits ^ 8u) - 8;
}

// codes[i] = code first + i.
inline void unpack_s4(const uint8_t* packed, uint32_t first, uint32_t length, int8_t* codes) {
  for (uint32_t i = 0; i < length; ++i) codes[i] = static_cast<int8_t>(code_s4(packed, first + i));
}

// From the sums of one output channel to its code, or its real value.
struct W4Output {
  DotOutput dot;        // grouped: its multipliers are [out_c][groups], its shifts [out_c]
  uint32_t groups;      // sums of an output channel; 1 if not grouped
  uint32_t group_size;  // input channels of each
  bool grouped;
  bool has_bias;

  // Element `index` of the output, which belongs to `channel`. bias: s64 if grouped, else s32.
  // sum(first, length) is the sum of products over input channels [first, first + length).
  template <typename Sum>
  void store(void* y, uint32_t index, uint32_t channel, const void* bias, const Sum& sum) const {
    if (!grouped) {
      const uint32_t first = start<int8_t>(static_cast<const int32_t*>(bias), channel);
      dot.store<int8_t>(y, index, first + sum(0, group_size), channel);
      return;
    }
    uint64_t total = start<int16_t>(static_cast<const int64_t*>(bias), channel);
    const int32_t* multiplier = dot.multiplier + channel * groups;
    for (uint32_t g = 0; g < groups; ++g) {
      const int32_t acc = static_cast<int32_t>(sum(g * group_size, group_size));
      total += static_cast<uint64_t>(int64_t{acc} * multiplier[g]);
    }
    static_cast<int8_t*>(y)[index] = static_cast<int8_t>(requantize_products(
        total, dot.shift[channel], dot.zero_point, dot.clamp_min, dot.clamp_max));
  }
};

// Operand counts and dtypes: x (s8), weight (s4), optional bias (s32, or s64 with groups); output
// s8 or f32.
Status check_w4_operands(const OpContext& context, const schema::DotParams& given);

// Bias, zero points, clamp and multipliers of `out_c` output channels that read `depth` input
// channels each, which the groups divide. A float output has no groups. Fills `output`.
Status prepare_w4(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                  uint32_t depth, W4Output* output);

}  // namespace fused_quant
