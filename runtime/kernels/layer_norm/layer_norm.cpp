// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/layer_norm/layer_norm.h"

#include "kernels/standardize/standardize.h"
#include "kernels/standardize_wide/standardize_wide.h"

namespace fused_quant {

Status prepare_layer_norm(const OpContext& context, void* params, Prepared* prepared) {
  return prepare_standardize(context, true, params, prepared);
}

void layer_norm_s8_scalar(const Step& step) { standardize_s8(step, true); }
void layer_norm_s16_scalar(const Step& step) { standardize_s16(step, true); }

}  // namespace fused_quant
