// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/window/average.h"

#include "numerics/requantize.h"
#include "op_check.h"

namespace fused_quant {

Status prepare_average(const OpContext& context, const schema::WindowParams& given,
                       Average* average) {
  const schema::DType dtype = context.output(0).dtype;
  FQ_RETURN_IF_ERROR(check_zero_point(context, given.input_zero_point(), dtype));
  FQ_RETURN_IF_ERROR(check_zero_point(context, given.output_zero_point(), dtype));
  FQ_RETURN_IF_ERROR(check_clamp(context, given.clamp_min(), given.clamp_max(), dtype));
  const uint32_t entries = length_of(given.count());
  if (entries > kMaxAverageCounts) {
    return context.invalid("too many divisors", entries, kMaxAverageCounts);
  }
  FQ_RETURN_IF_ERROR(check_multipliers(context, given.multiplier(), given.shift(), entries));
  if (entries == 0 && given.input_zero_point() != given.output_zero_point()) {
    return context.invalid("zero points differ but there are no multipliers",
                           given.output_zero_point(), given.input_zero_point());
  }
  average->count = entries == 0 ? nullptr : given.count()->data();
  average->multiplier = entries == 0 ? nullptr : given.multiplier()->data();
  average->shift = entries == 0 ? nullptr : given.shift()->data();
  average->table_size = entries;
  average->input_zero_point = given.input_zero_point();
  average->output_zero_point = given.output_zero_point();
  average->clamp_min = given.clamp_min();
  average->clamp_max = given.clamp_max();
  return Status();
}

uint32_t find_count(const Average& average, uint32_t n) {
  uint32_t i = 0;
  while (i < average.table_size && average.count[i] != n) ++i;
  return i;
}

Status check_divisor(const OpContext& context, const Average& average, uint64_t n) {
  if (n == 0 || n > 0x7fffffffu) {
    return context.invalid("divisor out of range", static_cast<int64_t>(n), 0x7fffffff);
  }
  if (average.table_size != 0 &&
      find_count(average, static_cast<uint32_t>(n)) == average.table_size) {
    return context.invalid("divisor has no multiplier", static_cast<int64_t>(n));
  }
  return Status();
}

template <typename T>
void store_average(const Average& average, uint32_t n, const int32_t* acc, uint32_t channels,
                   T* y) {
  if (average.table_size == 0) {
    for (uint32_t c = 0; c < channels; ++c) {
      // Even for n = 1 this fits int32: it is the zero point plus a sum of `terms` differences, no
      // larger than what check_sum allows.
      const int32_t value = average.output_zero_point + divide_half_away(acc[c], n);
      y[c] = static_cast<T>(clamp(value, average.clamp_min, average.clamp_max));
    }
    return;
  }
  const uint32_t entry = find_count(average, n);
  const int32_t multiplier = average.multiplier[entry];
  const uint32_t shift = average.shift[entry];
  for (uint32_t c = 0; c < channels; ++c) {
    y[c] = static_cast<T>(requantize(acc[c], multiplier, shift, average.output_zero_point,
                                     average.clamp_min, average.clamp_max));
  }
}

template void store_average(const Average&, uint32_t, const int32_t*, uint32_t, int8_t*);
template void store_average(const Average&, uint32_t, const int32_t*, uint32_t, int16_t*);

}  // namespace fused_quant
