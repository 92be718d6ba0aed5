// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/rms_norm/rms_norm.h"

#include "kernels/standardize/standardize.h"
#include "kernels/standardize_wide/standardize_wide.h"

namespace fused_quant {

Status prepare_rms_norm(const OpContext& context, void* params, Prepared* prepared) {
  return prepare_standardize(context, false, params, prepared);
}

void rms_norm_s8_scalar(const Step& step) { standardize_s8(step, false); }
void rms_norm_s16_scalar(const Step& step) { standardize_s16(step, false); }

}  // namespace fused_quant
