// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/amin/amin.h"

#include "kernels/reduce/reduce.h"

namespace fused_quant {
namespace {

bool is_better(int32_t a, int32_t b) { return a < b; }

}  // namespace

Status prepare_amin(const OpContext& context, void* params, Prepared* prepared) {
  return prepare_reduce_extreme(context, params, prepared);
}

void amin_s8_scalar(const Step& step) { reduce_extreme<int8_t>(step, is_better); }
void amin_s16_scalar(const Step& step) { reduce_extreme<int16_t>(step, is_better); }

}  // namespace fused_quant
