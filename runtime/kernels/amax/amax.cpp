// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/amax/amax.h"

#include "kernels/reduce/reduce.h"

namespace fused_quant {

Status prepare_amax(const OpContext& context, void* params, Prepared* prepared) {
  return prepare_reduce_extreme(context, params, prepared);
}

void amax_s8_scalar(const Step& step) {
  reduce_extreme<int8_t>(step, [](int8_t a, int8_t b) { return a > b; });
}

}  // namespace fused_quant
