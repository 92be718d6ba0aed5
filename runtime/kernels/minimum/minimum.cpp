// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/minimum/minimum.h"

namespace fused_quant {
namespace {

int32_t choose(int32_t a, int32_t b) { return a < b ? a : b; }

}  // namespace

Status prepare_minimum(const OpContext& context, void* params, Prepared* prepared) {
  return prepare_extremum(context, params, prepared);
}

void minimum_s8_scalar(const Step& step) { extremum<int8_t>(step, choose); }
void minimum_s16_scalar(const Step& step) { extremum<int16_t>(step, choose); }

}  // namespace fused_quant
