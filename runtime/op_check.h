// SPDX-License-Identifier: BSD-3-Clause
//
// Checks that several operators' prepare functions share. Each returns kInvalidProgram naming what
// is wrong, what was got and what is supported.
#pragma once

#include <cstdint>

#include "op.h"
#include "status.h"
#include "tensor_view.h"

namespace fused_quant {

// The operator has `required` to `allowed` inputs, the first `required` of them present, and
// `outputs` outputs.
Status check_operand_counts(const OpContext& context, uint32_t required, uint32_t allowed,
                            uint32_t outputs);

Status check_dtype(const OpContext& context, const TensorView& view, schema::DType dtype,
                   const char* what);

Status check_rank(const OpContext& context, const TensorView& view, uint32_t rank,
                  const char* what);

// lo <= hi, both codes of `dtype` (s8, u8 or s16).
Status check_clamp(const OpContext& context, int32_t lo, int32_t hi, schema::DType dtype);

// A code of `dtype` (s8, u8 or s16).
Status check_zero_point(const OpContext& context, int32_t zero_point, schema::DType dtype);

// The same of an operator that multiplies codes: 0 of s16, so that products fit int32.
Status check_factor_zero_point(const OpContext& context, int32_t zero_point, schema::DType dtype);

// 0 <= multiplier < 2^31 and 2 <= shift <= 62: the domain of R.
Status check_multiplier(const OpContext& context, int32_t multiplier, int32_t shift);

// A float32 in [2^-126, 2^126]: it and its reciprocal are normal numbers.
Status check_scale(const OpContext& context, float scale);

// `length` multipliers and as many shifts, all in the domain of R.
Status check_multipliers(const OpContext& context, const flatbuffers::Vector<int32_t>* multipliers,
                         const flatbuffers::Vector<uint8_t>* shifts, uint32_t length);

// The largest |code - zero_point| of an s8 tensor: 128 to 255.
constexpr int32_t max_distance_s8(int32_t zero_point) {
  return zero_point < 0 ? 127 - zero_point : zero_point + 128;
}

// The same of an s16 tensor: 32768 to 65535.
constexpr int32_t max_distance_s16(int32_t zero_point) {
  return zero_point < 0 ? 32767 - zero_point : zero_point + 32768;
}

// The same of a dtype whose codes are signed: s16, or else s8.
constexpr int32_t max_distance(schema::DType dtype, int32_t zero_point) {
  return dtype == schema::DType_s16 ? max_distance_s16(zero_point) : max_distance_s8(zero_point);
}

// s8 or s16.
Status check_signed(const OpContext& context, const TensorView& view, const char* what);

// |sum of `terms` differences of s8 or s16 codes from their zero point| fits int32.
Status check_sum(const OpContext& context, uint64_t terms, schema::DType dtype, int32_t zero_point);

template <typename Vector>
uint32_t length_of(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// The sign of operand `index`; an absent list negates nothing.
inline bool is_negated(const flatbuffers::Vector<uint8_t>* negate, uint32_t index) {
  return index < length_of(negate) && negate->Get(index) != 0;
}

}  // namespace fused_quant
