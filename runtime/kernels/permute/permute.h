// SPDX-License-Identifier: BSD-3-Clause
//
// permute: y[i] = x[perm(i)]: stored output dimension d is stored input dimension perm[d]. Elements
// are moved as they are; the output has the input's quantization.
#pragma once

#include "op.h"
#include "strided_loop.h"

namespace fused_quant {

struct PermuteParams {
  StridedLoop<1> loop;
};

// Inputs: x. Output: y, of the same dtype.
Status prepare_permute(const OpContext& context, void* params, Prepared* prepared);
void permute_x8_scalar(const Step& step);   // elements of one byte
void permute_x16_scalar(const Step& step);  // elements of two bytes
void permute_x32_scalar(const Step& step);  // elements of four bytes

}  // namespace fused_quant
