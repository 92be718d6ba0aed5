// SPDX-License-Identifier: BSD-3-Clause
//
// TensorView: a dense tensor as stored. dim[0] is outermost; dim[rank - 1] is contiguous.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schema.h"

namespace fused_quant {

constexpr uint32_t kMaxRank = 6;

// No tensor is larger, so that every index and stride within a tensor fits int32.
constexpr uint64_t kMaxTensorBytes = 0x7fffffff;

struct TensorView {
  void* data = nullptr;         // null until bound
  uint32_t dim[kMaxRank] = {};  // entries from rank on are 0
  uint8_t rank = 0;             // a scalar has rank 0 and one element
  schema::DType dtype = schema::DType::DType_s8;

  // Number of elements: at least 1 and at most kMaxTensorBytes for a verified tensor.
  uint32_t count() const {
    uint32_t product = 1;
    for (uint32_t i = 0; i < rank; ++i) product *= dim[i];
    return product;
  }
};

// Bytes of one element, of s4 of two of them; 0 for a value that is no dtype.
constexpr uint32_t dtype_bytes(schema::DType dtype) {
  switch (dtype) {
    case schema::DType::DType_s8:
    case schema::DType::DType_u8:
    case schema::DType::DType_s4:
    case schema::DType::DType_b8:
      return 1;
    case schema::DType::DType_s16:
      return 2;
    case schema::DType::DType_s32:
    case schema::DType::DType_f32:
      return 4;
    case schema::DType::DType_s64:
      return 8;
  }
  return 0;
}

inline size_t tensor_bytes(const TensorView& view) {
  const size_t count = view.count();
  return view.dtype == schema::DType_s4 ? (count + 1) / 2 : count * dtype_bytes(view.dtype);
}

}  // namespace fused_quant
