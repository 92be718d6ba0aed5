// SPDX-License-Identifier: BSD-3-Clause
//
// Accumulators of sums of products, by the type of the activations: 32 bits for int8, 64 for int16.
#pragma once

#include <cstdint>
#include <type_traits>

#include "numerics/requantize.h"

namespace fused_quant {

template <typename T>
struct AccumulatorOf;
template <>
struct AccumulatorOf<int8_t> {
  using Type = int32_t;
};
template <>
struct AccumulatorOf<int16_t> {
  using Type = int64_t;
};

template <typename T>
using Acc = typename AccumulatorOf<T>::Type;

// The same, for sums that wrap.
template <typename T>
using WrappingAcc = std::make_unsigned_t<Acc<T>>;

// clamp(zero_point + R(acc; multiplier, shift), lo, hi), a code of activations T. The zero point of
// int16 is 0.
template <typename T>
T requantize_sum(Acc<T> acc, int32_t multiplier, uint32_t shift, int32_t zero_point, int32_t lo,
                 int32_t hi) {
  if constexpr (std::is_same_v<Acc<T>, int64_t>) {
    return static_cast<T>(requantize_wide(acc, multiplier, shift, lo, hi));
  } else {
    return static_cast<T>(requantize(acc, multiplier, shift, zero_point, lo, hi));
  }
}

}  // namespace fused_quant
