// SPDX-License-Identifier: BSD-3-Clause

#include "op_check.h"

#include "numerics/float32.h"
#include "numerics/requantize.h"

namespace fused_quant {
namespace {

struct CodeRange {
  int32_t lo;
  int32_t hi;
};

CodeRange code_range(schema::DType dtype) {
  if (dtype == schema::DType_u8) return {0, 255};
  if (dtype == schema::DType_s16) return {-32768, 32767};
  return {-128, 127};
}

}  // namespace

Status check_operand_counts(const OpContext& context, uint32_t required, uint32_t allowed,
                            uint32_t outputs) {
  if (context.num_inputs() < required || context.num_inputs() > allowed) {
    return context.invalid("number of inputs", context.num_inputs(), required);
  }
  for (uint32_t i = 0; i < required; ++i) {
    if (!context.has_input(i)) return context.invalid("required input is absent", i);
  }
  if (context.num_outputs() != outputs) {
    return context.invalid("number of outputs", context.num_outputs(), outputs);
  }
  return Status();
}

Status check_dtype(const OpContext& context, const TensorView& view, schema::DType dtype,
                   const char* what) {
  return view.dtype == dtype ? Status() : context.invalid(what, view.dtype, dtype);
}

Status check_signed(const OpContext& context, const TensorView& view, const char* what) {
  if (view.dtype == schema::DType_s16) return Status();
  return check_dtype(context, view, schema::DType_s8, what);
}

Status check_rank(const OpContext& context, const TensorView& view, uint32_t rank,
                  const char* what) {
  return view.rank == rank ? Status() : context.invalid(what, view.rank, rank);
}

Status check_clamp(const OpContext& context, int32_t lo, int32_t hi, schema::DType dtype) {
  const CodeRange range = code_range(dtype);
  if (lo < range.lo) return context.invalid("clamp_min is no code", lo, range.lo);
  if (hi > range.hi) return context.invalid("clamp_max is no code", hi, range.hi);
  return lo <= hi ? Status() : context.invalid("clamp_min above clamp_max", lo, hi);
}

Status check_zero_point(const OpContext& context, int32_t zero_point, schema::DType dtype) {
  const CodeRange range = code_range(dtype);
  if (zero_point < range.lo || zero_point > range.hi) {
    return context.invalid("zero point is no code", zero_point,
                           zero_point < range.lo ? range.lo : range.hi);
  }
  return Status();
}

Status check_factor_zero_point(const OpContext& context, int32_t zero_point, schema::DType dtype) {
  if (dtype == schema::DType_s16 && zero_point != 0) {
    return context.invalid("zero point of int16 codes", zero_point, 0);
  }
  return check_zero_point(context, zero_point, dtype);
}

Status check_multiplier(const OpContext& context, int32_t multiplier, int32_t shift) {
  if (multiplier < 0) return context.invalid("multiplier is negative", multiplier);
  if (shift < kMinShift) return context.invalid("shift below 2", shift, kMinShift);
  return shift <= kMaxShift ? Status() : context.invalid("shift above 62", shift, kMaxShift);
}

Status check_scale(const OpContext& context, float scale) {
  return is_scale(scale) ? Status() : context.invalid("scale is not in [2^-126, 2^126]");
}

Status check_multipliers(const OpContext& context, const flatbuffers::Vector<int32_t>* multipliers,
                         const flatbuffers::Vector<uint8_t>* shifts, uint32_t length) {
  if (length_of(multipliers) != length) {
    return context.invalid("number of multipliers", length_of(multipliers), length);
  }
  if (length_of(shifts) != length) {
    return context.invalid("number of shifts", length_of(shifts), length);
  }
  for (uint32_t i = 0; i < length; ++i) {
    FQ_RETURN_IF_ERROR(check_multiplier(context, multipliers->Get(i), shifts->Get(i)));
  }
  return Status();
}

Status check_sum(const OpContext& context, uint64_t terms, schema::DType dtype,
                 int32_t zero_point) {
  const uint64_t limit = 0x7fffffffu / static_cast<uint32_t>(max_distance(dtype, zero_point));
  if (terms > limit) {
    return context.invalid("sum of so many elements may exceed int32", static_cast<int64_t>(terms),
                           static_cast<int64_t>(limit));
  }
  return Status();
}

}  // namespace fused_quant
