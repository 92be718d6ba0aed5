// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/amax/amax.h"

#include "kernels/reduce/reduce.h"

namespace fused_quant {
namespace {

bool is_better(int32_t a, int32_t b) { return a > b; }

}  // namespace

Status prepare_amax(const OpContext& context, void* params, Prepared* prepared) {
  return prepare_reduce_extreme(context, params, prepared);
}

void amax_s8_scalar(const Step& step) { reduce_extreme<int8_t>(step, is_better); }
void amax_s16_scalar(const Step& step) { reduce_extreme<int16_t>(step, is_better); }

}  // namespace fused_quant
