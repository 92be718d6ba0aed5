// SPDX-License-Identifier: BSD-3-Clause
//
// What the convolutions and linear share: integer dot products and their requantization, or their
// real value where the output is float.
//
// Accumulators wrap. int8 activations: 32 bits. The folded bias may wrap ahead of time, the true
// accumulator fits int32 (an ahead-of-time rule), and addition modulo 2^32 does not care about the
// order. int16 activations: 64 bits, and a true accumulator within 2^47.
#pragma once

#include <cstdint>

#include "kernels/window/window.h"
#include "numerics/accumulator.h"
#include "numerics/float32.h"
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

  template <typename T>
  T code(WrappingAcc<T> acc, uint32_t channel) const {
    const uint32_t i = channel * channel_step;
    return requantize_sum<T>(static_cast<Acc<T>>(acc), multiplier[i], shift[i], zero_point,
                             clamp_min, clamp_max);
  }
  template <typename T>
  float real(WrappingAcc<T> acc, uint32_t channel) const {
    return real_product(static_cast<Acc<T>>(acc), real_scale[channel * channel_step]);
  }
  // Element `index` of the output, which belongs to `channel`.
  template <typename T>
  void store(void* y, uint32_t index, WrappingAcc<T> acc, uint32_t channel) const {
    if (real_scale != nullptr) {
      static_cast<float*>(y)[index] = real<T>(acc, channel);
    } else {
      static_cast<T*>(y)[index] = code<T>(acc, channel);
    }
  }
};

// sum x[i] * weight[i]
template <typename T>
WrappingAcc<T> dot(const T* x, const int8_t* weight, uint32_t length) {
  WrappingAcc<T> acc = 0;
  for (uint32_t i = 0; i < length; ++i) acc += static_cast<WrappingAcc<T>>(x[i] * weight[i]);
  return acc;
}

// sum weight[i]
template <typename T>
WrappingAcc<T> sum(const int8_t* weight, uint32_t length) {
  WrappingAcc<T> acc = 0;
  for (uint32_t i = 0; i < length; ++i) acc += static_cast<WrappingAcc<T>>(weight[i]);
  return acc;
}

// sum (x[i] - zero_point) * weight[i]
template <typename T>
WrappingAcc<T> dot_offset(const T* x, int32_t zero_point, const int8_t* weight, uint32_t length) {
  WrappingAcc<T> acc = 0;
  for (uint32_t i = 0; i < length; ++i) {
    acc += static_cast<WrappingAcc<T>>((x[i] - zero_point) * weight[i]);
  }
  return acc;
}

// The bias of an output channel; no bias is 0.
template <typename T>
WrappingAcc<T> start(const Acc<T>* bias, uint32_t channel) {
  return bias == nullptr ? 0u : static_cast<WrappingAcc<T>>(bias[channel]);
}

// acc[o] = bias[o]
template <typename T>
void start_accumulators(const Acc<T>* bias, uint32_t out_c, WrappingAcc<T>* acc) {
  for (uint32_t o = 0; o < out_c; ++o) acc[o] = start<T>(bias, o);
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
template <typename T>
void add_tap(const T* x, int32_t zero_point, const int8_t* weight, const TapWeights& w,
             WrappingAcc<T>* acc) {
  const uint32_t channels = w.out_c / w.groups;
  for (uint32_t g = 0; g < w.groups; ++g, x += w.depth) {
    for (uint32_t i = 0; i < channels; ++i, weight += w.step) {
      *acc++ += dot_offset(x, zero_point, weight, w.depth);
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

// Bias (optional, [out_c]), zero points (0 of s16), clamp and multipliers, or the scales of a float
// output. `out_c` is the extent of the weight's channel dimension. Fills `output`.
Status prepare_dot(const OpContext& context, const schema::DotParams& given, uint32_t out_c,
                   DotOutput* output);

// Operand counts and dtypes alone, so that the shapes may be looked at: x s8 or s16, weight s8, the
// bias (optional) s32 of s8 and s64 of s16, and the output of the dtype of x, or f32.
Status check_dot_operands(const OpContext& context);

// Bytes of `out_c` accumulators for activations of `dtype`.
constexpr uint64_t accumulator_bytes(schema::DType dtype, uint32_t out_c) {
  return uint64_t{out_c} * (dtype == schema::DType_s16 ? sizeof(int64_t) : sizeof(int32_t));
}

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
