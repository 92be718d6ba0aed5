// SPDX-License-Identifier: BSD-3-Clause
//
// copy: the output's bytes are the input's. Shapes may differ, the number of elements may not: it
// stands for a view whose input and output need memory of their own.
#pragma once

#include "op.h"

namespace fused_quant {

struct CopyParams {
  size_t bytes;
};

// Inputs: x. Output: y, of the same dtype.
Status prepare_copy(const OpContext& context, void* params, Prepared* prepared);
void copy_scalar(const Step& step);

}  // namespace fused_quant
