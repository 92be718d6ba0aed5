// SPDX-License-Identifier: BSD-3-Clause
//
// What conv2d, depthwise_conv2d and linear share: integer dot products and their requantization.
//
// Accumulators are uint32 and wrap. The folded bias may wrap ahead of time, the true accumulator
// fits int32 (an ahead-of-time rule), and addition modulo 2^32 does not care about the order.
#pragma once

#include <cstdint>

#include "kernels/window/window.h"
#include "numerics/requantize.h"
#include "op.h"
#include "status.h"

namespace fused_quant {

// q[c] = clamp(zero_point + R(acc[c]; multiplier[c], shift[c]), clamp_min, clamp_max).
struct DotOutput {
  const int32_t* multiplier;  // in the payload
  const uint8_t* shift;
  uint32_t channel_step;  // 1 = one pair per output channel, 0 = one pair for all
  int32_t zero_point;
  int32_t clamp_min;
  int32_t clamp_max;

  int8_t code(uint32_t acc, uint32_t channel) const {
    const uint32_t i = channel * channel_step;
    return static_cast<int8_t>(requantize(static_cast<int32_t>(acc), multiplier[i], shift[i],
                                          zero_point, clamp_min, clamp_max));
  }
};

// sum a[i] * b[i]
inline uint32_t dot_s8(const int8_t* a, const int8_t* b, uint32_t length) {
  uint32_t acc = 0;
  for (uint32_t i = 0; i < length; ++i) acc += static_cast<uint32_t>(a[i] * b[i]);
  return acc;
}

// sum a[i]
inline uint32_t sum_s8(const int8_t* a, uint32_t length) {
  uint32_t acc = 0;
  for (uint32_t i = 0; i < length; ++i) acc += static_cast<uint32_t>(a[i]);
  return acc;
}

// A convolution's places: x [batch, h.in, w.in, in_c] to y [batch, h.out, w.out, out_c].
struct ConvShape {
  uint32_t batch;
  uint32_t in_c;
  uint32_t out_c;
  WindowAxis h;
  WindowAxis w;
};

// Operand counts and dtypes (x, weight, optional bias s32 [out_c]; output s8), zero points, clamp,
// multipliers. `out_c` is the extent of the weight's channel dimension. Fills `output`.
Status prepare_dot(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                   DotOutput* output);

// Operand counts and dtypes alone, so that the shapes may be looked at.
Status check_dot_operands(const OpContext& context);

// Shapes of x and y, both rank 4, and both axes against the kernel of the weight.
Status prepare_conv_shape(const OpContext& context, const schema::DotParams& given,
                          uint32_t weight_h, uint32_t weight_w, uint32_t out_c, ConvShape* shape);

}  // namespace fused_quant
