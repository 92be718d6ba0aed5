// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a program's tensor and the payload's are the same bytes in memory.
#pragma once

#include <cstdint>

#include "plan.h"
#include "pte/program_reader.h"

namespace fused_quant::firmware {

// executorch ScalarType of a payload's dtype.
inline int8_t scalar_type_of(schema::DType dtype) {
  switch (dtype) {
    case schema::DType_u8:
      return 0;
    case schema::DType_s8:
      return 1;
    case schema::DType_s16:
      return 2;
    case schema::DType_s32:
      return 3;
    case schema::DType_s64:
      return 4;
    case schema::DType_f32:
      return 6;
    case schema::DType_b8:
      return 11;
    case schema::DType_s4:
      return -1;
  }
  return -1;
}

// True for equal dtype, logical sizes and order in memory. Where a dimension of size one stands in
// the order makes no difference in memory, and ExecuTorch and the payload may put it elsewhere.
inline bool same_layout(const TensorInfo& stored, const pte::ProgramTensor& program) {
  const uint32_t rank = program.rank;
  if (stored.view.rank != rank || scalar_type_of(stored.view.dtype) != program.scalar_type) {
    return false;
  }
  uint32_t k = 0;  // next stored dimension of the payload
  for (uint32_t i = 0; i < rank; ++i) {
    const uint32_t dim = program.dim_order[i];
    if (program.sizes[dim] == 1) {
      continue;
    }
    while (k < rank && stored.view.dim[k] == 1) {
      ++k;
    }
    if (k == rank || stored.view.dim[k] != static_cast<uint32_t>(program.sizes[dim]) ||
        (stored.dim_order == nullptr ? k : stored.dim_order[k]) != dim) {
      return false;
    }
    ++k;
  }
  while (k < rank && stored.view.dim[k] == 1) {
    ++k;
  }
  return k == rank;
}

}  // namespace fused_quant::firmware
