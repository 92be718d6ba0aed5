// SPDX-License-Identifier: BSD-3-Clause
//
// What softmax, log_softmax, layer_norm and rms_norm share: the rows they work on and the last
// step.
#pragma once

#include <cstdint>

#include "numerics/requantize.h"
#include "op.h"
#include "status.h"
#include "strided_loop.h"

namespace fused_quant {

// Strides of index 0 count elements of x and y, those of index 1 elements of weight and bias.
struct NormalizeRows {
  StridedLoop<2> starts;    // of the rows
  StridedLoop<2> elements;  // of one row
  uint32_t length;          // elements of one row
  uint32_t affine;          // elements of weight and bias
};

struct NormalizeOutput {
  int32_t multiplier;
  uint32_t shift;
  int32_t zero_point;
  int32_t clamp_min;
  int32_t clamp_max;

  int32_t operator()(int32_t acc) const {
    return requantize(acc, multiplier, shift, zero_point, clamp_min, clamp_max);
  }
};

// Checks `sizes`, `axes`, `affine_axes` and the two tensors, both s8 or both s16; a row has at most
// `longest` elements.
Status prepare_rows(const OpContext& context, const schema::NormalizeParams& given,
                    uint32_t longest, NormalizeRows* rows);

Status prepare_normalize_output(const OpContext& context, const schema::NormalizeParams& given,
                                NormalizeOutput* output);

// Input `index` is a constant of `length` elements of `dtype`.
Status check_constant(const OpContext& context, uint32_t index, schema::DType dtype,
                      uint32_t length);

// The constant `table` has `first` at its start, does not increase and is never negative.
template <typename T>
Status check_decay(const OpContext& context, const T* table, uint32_t length, T first) {
  if (table[0] != first) return context.invalid("first exponential", table[0], first);
  for (uint32_t i = 1; i < length; ++i) {
    if (table[i] > table[i - 1]) return context.invalid("exponentials increase", table[i], i);
  }
  const T last = table[length - 1];
  return last >= 0 ? Status() : context.invalid("exponential is negative", last);
}

// Input `index` is the constant table of `split_decay`.
Status check_split_decay(const OpContext& context, uint32_t index);

// exp(-d * scale) in units of 2^-30 for d in [0, 65535]: exp(-(d mod 256) * scale) in the first 256
// entries, times exp(-(d div 256) * 256 * scale) in the others, each at most 2^30. At most 2^30.
inline uint32_t split_decay(const int32_t* table, uint32_t d) {
  const uint64_t product = uint64_t{static_cast<uint32_t>(table[d & 255])} *
                           static_cast<uint32_t>(table[256 + (d >> 8)]);
  return static_cast<uint32_t>((product + (1u << 29)) >> 30);
}

// Calls visit(x_offset, affine_offset) for each element of a loop, in order.
template <typename Visit>
void for_each_pair(const StridedLoop<2>& loop, Visit visit) {
  const uint32_t inner = loop.rank - 1;
  for_each_row(loop, [&](uint32_t, const uint32_t(&from)[2], uint32_t length) {
    for (uint32_t i = 0; i < length; ++i) {
      visit(from[0] + i * loop.stride[0][inner], from[1] + i * loop.stride[1][inner]);
    }
  });
}

// The largest code of the row that starts at x.
template <typename T>
int32_t largest_code(const NormalizeRows& rows, const T* x) {
  int32_t largest = x[0];
  for_each_pair(rows.elements,
                [&](uint32_t i, uint32_t) { largest = x[i] > largest ? x[i] : largest; });
  return largest;
}

}  // namespace fused_quant
