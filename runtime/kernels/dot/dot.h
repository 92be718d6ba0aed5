// SPDX-License-Identifier: BSD-3-Clause
//
// What the convolutions and linear share: integer dot products and their requantization, or their
// real value where the output is float.
//
// Accumulators are uint32 and wrap. The folded bias may wrap ahead of time, the true accumulator
// fits int32 (an ahead-of-time rule), and addition modulo 2^32 does not care about the order.
#pragma once

#include <cstdint>

#include "kernels/window/window.h"
#include "numerics/float32.h"
#include "numerics/requantize.h"
#include "op.h"
#include "status.h"

namespace fused_quant {

// q[c] = clamp(zero_point + R(acc[c]; multiplier[c], shift[c]), clamp_min, clamp_max), or
// y[c] = float(acc[c]) * real_scale[c], both roundings to nearest even.
struct DotOutput {
  const int32_t* multiplier;  // in the payload
  const uint8_t* shift;
  const float* real_scale;  // in the payload; null for a quantized output
  uint32_t channel_step;    // 1 = one of them per output channel, 0 = one for all
  int32_t zero_point;
  int32_t clamp_min;
  int32_t clamp_max;

  int8_t code(uint32_t acc, uint32_t channel) const {
    const uint32_t i = channel * channel_step;
    return static_cast<int8_t>(requantize(static_cast<int32_t>(acc), multiplier[i], shift[i],
                                          zero_point, clamp_min, clamp_max));
  }
  float real(uint32_t acc, uint32_t channel) const {
    return real_product(static_cast<int32_t>(acc), real_scale[channel * channel_step]);
  }
  // Element `index` of the output, which belongs to `channel`.
  void store(void* y, uint32_t index, uint32_t acc, uint32_t channel) const {
    if (real_scale != nullptr) {
      static_cast<float*>(y)[index] = real(acc, channel);
    } else {
      static_cast<int8_t*>(y)[index] = code(acc, channel);
    }
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

// sum (a[i] - zero_point) * b[i]
inline uint32_t dot_offset_s8(const int8_t* a, int32_t zero_point, const int8_t* b,
                              uint32_t length) {
  uint32_t acc = 0;
  for (uint32_t i = 0; i < length; ++i) acc += static_cast<uint32_t>((a[i] - zero_point) * b[i]);
  return acc;
}

// acc[o] = bias[o]; no bias is 0.
inline void start_accumulators(const int32_t* bias, uint32_t out_c, uint32_t* acc) {
  for (uint32_t o = 0; o < out_c; ++o)
    acc[o] = bias == nullptr ? 0u : static_cast<uint32_t>(bias[o]);
}

// Where a tap's weights are: `depth` input channels of a group, `step` elements after those of the
// output channel before.
struct TapWeights {
  uint32_t groups;
  uint32_t out_c;
  uint32_t depth;
  uint32_t step;
};

// acc[o] += sum over the depth of (x - zero_point) * weight[o]: one tap inside the input.
inline void add_tap_s8(const int8_t* x, int32_t zero_point, const int8_t* weight,
                       const TapWeights& w, uint32_t* acc) {
  const uint32_t channels = w.out_c / w.groups;
  for (uint32_t g = 0; g < w.groups; ++g, x += w.depth) {
    for (uint32_t i = 0; i < channels; ++i, weight += w.step) {
      *acc++ += dot_offset_s8(x, zero_point, weight, w.depth);
    }
  }
}

// A convolution's places: x [batch, h.in, w.in, in_c] to y [batch, h.out, w.out, out_c].
struct ConvShape {
  uint32_t batch;
  uint32_t in_c;
  uint32_t out_c;
  WindowAxis h;
  WindowAxis w;
};

// Bias (optional, s32 [out_c]), zero points, clamp and multipliers, or the scales of a float
// output. `out_c` is the extent of the weight's channel dimension. Fills `output`.
Status prepare_dot(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                   DotOutput* output);

// Operand counts and dtypes (x, weight, optional bias; output s8 or f32) alone, so that the shapes
// may be looked at.
Status check_dot_operands(const OpContext& context);

// The groups divide the channels, and `depth` is that of the weight: in_c / groups.
Status check_groups(const OpContext& context, uint32_t groups, uint32_t in_c, uint32_t out_c,
                    uint32_t depth);

// Shapes of x and y, both rank 4, or rank 3 without the height of 1: batch, channels and the kernel
// of the weight. Gives both as rank 4.
Status prepare_conv_places(const OpContext& context, const schema::DotParams& given,
                           uint32_t weight_h, uint32_t weight_w, uint32_t out_c, ConvShape* shape,
                           TensorView* x, TensorView* y);

// That, and both axes against the kernel of the weight.
Status prepare_conv_shape(const OpContext& context, const schema::DotParams& given,
                          uint32_t weight_h, uint32_t weight_w, uint32_t out_c, ConvShape* shape);

}  // namespace fused_quant
