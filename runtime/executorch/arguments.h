// SPDX-License-Identifier: BSD-3-Clause
//
// Checks that an argument of a delegate call is the tensor the payload was made for. Sizes are
// static, so "the same" is exact, with one freedom: layouts are compared by the strides of
// dimensions larger than one, since the order of the others says nothing about memory.

#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/evalue.h>

#include "plan.h"

namespace fused_quant {

// Which argument a message is about.
struct ArgumentName {
  const char* role;  // "input" or "output"
  uint32_t index;
};

// Data pointer of `value` in `*data` when it is a tensor with the dtype, sizes, layout and
// alignment of `expected`; otherwise logs what differs and returns InvalidArgument.
executorch::runtime::Error bind_argument(const executorch::runtime::EValue& value,
                                         const TensorInfo& expected, ArgumentName name,
                                         void** data);

}  // namespace fused_quant
