// SPDX-License-Identifier: BSD-3-Clause
//
// What operators that run along some stored dimensions share: axes, the reduced shape, loops over
// kept and reduced dimensions, and the extremum of a slice.
#pragma once

#include <cstdint>

#include "numerics/requantize.h"
#include "op.h"
#include "status.h"
#include "strided_loop.h"

namespace fused_quant {

// `axes` are ascending and below `rank`; bit d of `mask` is set if d is one of them.
Status read_axes(const OpContext& context, const flatbuffers::Vector<uint8_t>* axes, uint32_t rank,
                 uint32_t* mask);

// The output's sizes are the kept ones of the input in order, disregarding sizes of one.
Status check_reduced_shape(const OpContext& context, const TensorView& x, const TensorView& y,
                           uint32_t mask);

// The dimensions of a dense input: those that are kept, and those that are walked for each element
// of the output.
struct ReduceLoops {
  StridedLoop<1> kept;
  StridedLoop<1> reduced;
};

ReduceLoops reduce_loops(const TensorView& x, uint32_t mask);

// Calls visit(offset) for every element of the loop in order.
template <typename Visit>
void for_each_offset(const StridedLoop<1>& loop, Visit visit) {
  const uint32_t stride = loop.stride[0][loop.rank - 1];
  for_each_row(loop, [&](uint32_t, const uint32_t(&from)[1], uint32_t length) {
    for (uint32_t i = 0; i < length; ++i) visit(from[0] + i * stride);
  });
}

// amax and amin: q = clamp(output_zero_point + R(extremum - input_zero_point; multiplier, shift)).
// R does not decrease, so requantizing the extreme code is requantizing the extreme value.
struct ReduceExtremeParams {
  ReduceLoops loops;
  int32_t input_zero_point;
  int32_t output_zero_point;
  int32_t multiplier;
  uint32_t shift;
  int32_t clamp_min;
  int32_t clamp_max;
};

// Input: x (s8 or s16). Output: q (of the same dtype). ReduceParams.
Status prepare_reduce_extreme(const OpContext& context, void* params, Prepared* prepared);

// better(a, b): a takes the place of b.
template <typename T, typename Better>
void reduce_extreme(const Step& step, Better better) {
  const auto& p = step.params<ReduceExtremeParams>();
  const T* x = step.input<T>(0);
  T* y = step.output<T>(0);
  for_each_offset(p.loops.kept, [&](uint32_t start) {
    T found = x[start];
    for_each_offset(p.loops.reduced, [&](uint32_t offset) {
      if (better(x[start + offset], found)) found = x[start + offset];
    });
    *y++ = static_cast<T>(requantize(found - p.input_zero_point, p.multiplier, p.shift,
                                     p.output_zero_point, p.clamp_min, p.clamp_max));
  });
}

}  // namespace fused_quant
