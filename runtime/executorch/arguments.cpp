// SPDX-License-Identifier: BSD-3-Clause

#include "arguments.h"

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/platform/log.h>

namespace fused_quant {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;

ScalarType scalar_type(schema::DType dtype) {
  switch (dtype) {
    case schema::DType_s8:
      return ScalarType::Char;
    case schema::DType_u8:
      return ScalarType::Byte;
    case schema::DType_s16:
      return ScalarType::Short;
    case schema::DType_s32:
      return ScalarType::Int;
    case schema::DType_s64:
      return ScalarType::Long;
    case schema::DType_f32:
      return ScalarType::Float;
    case schema::DType_b8:
      return ScalarType::Bool;
    case schema::DType_s4:  // constants only
      return ScalarType::Undefined;
  }
  return ScalarType::Undefined;
}

// Logical dimension behind stored dimension `stored`.
uint32_t logical_dim(const TensorInfo& info, uint32_t stored) {
  return info.dim_order == nullptr ? stored : info.dim_order[stored];
}

Error check_sizes(const Tensor& tensor, const TensorInfo& expected, ArgumentName name) {
  const auto rank = static_cast<uint32_t>(tensor.dim());
  if (rank != expected.view.rank) {
    ET_LOG(Error, "FusedQuantBackend: %s %u has %u dimensions, expected %u", name.role,
           static_cast<unsigned>(name.index), static_cast<unsigned>(rank),
           static_cast<unsigned>(expected.view.rank));
    return Error::InvalidArgument;
  }
  for (uint32_t stored = 0; stored < rank; ++stored) {
    const uint32_t logical = logical_dim(expected, stored);
    const auto got = static_cast<long>(tensor.sizes()[logical]);
    const auto want = static_cast<long>(expected.view.dim[stored]);
    if (got != want) {
      ET_LOG(Error, "FusedQuantBackend: %s %u has size %ld in dimension %u, expected %ld",
             name.role, static_cast<unsigned>(name.index), got, static_cast<unsigned>(logical),
             want);
      return Error::InvalidArgument;
    }
  }
  return Error::Ok;
}

// Sizes agree already. Strides tell how the bytes lie; a dimension order alone would be ambiguous.
Error check_layout(const Tensor& tensor, const TensorInfo& expected, ArgumentName name) {
  const auto strides = tensor.strides();
  if (strides.data() == nullptr && expected.view.rank > 0) {
    ET_LOG(Error, "FusedQuantBackend: %s %u has no strides", name.role,
           static_cast<unsigned>(name.index));
    return Error::InvalidArgument;
  }
  long want = 1;
  for (uint32_t stored = expected.view.rank; stored-- > 0;) {
    const auto size = static_cast<long>(expected.view.dim[stored]);
    const uint32_t logical = logical_dim(expected, stored);
    const auto got = static_cast<long>(strides[logical]);
    if (size > 1 && got != want) {
      ET_LOG(Error,
             "FusedQuantBackend: %s %u has stride %ld in dimension %u, expected %ld: its dimension "
             "order is not the one the program was lowered for",
             name.role, static_cast<unsigned>(name.index), got, static_cast<unsigned>(logical),
             want);
      return Error::InvalidArgument;
    }
    want *= size;
  }
  return Error::Ok;
}

}  // namespace

Error bind_argument(const executorch::runtime::EValue& value, const TensorInfo& expected,
                    ArgumentName name, void** data) {
  if (!value.isTensor()) {
    ET_LOG(Error, "FusedQuantBackend: %s %u is no tensor", name.role,
           static_cast<unsigned>(name.index));
    return Error::InvalidArgument;
  }
  const Tensor& tensor = value.toTensor();
  if (tensor.scalar_type() != scalar_type(expected.view.dtype)) {
    ET_LOG(Error, "FusedQuantBackend: %s %u has dtype %d, expected %d", name.role,
           static_cast<unsigned>(name.index), static_cast<int>(tensor.scalar_type()),
           static_cast<int>(scalar_type(expected.view.dtype)));
    return Error::InvalidArgument;
  }
  Error error = check_sizes(tensor, expected, name);
  if (error != Error::Ok) return error;
  error = check_layout(tensor, expected, name);
  if (error != Error::Ok) return error;

  void* const pointer = tensor.mutable_data_ptr();
  const uint32_t alignment = dtype_bytes(expected.view.dtype);
  if (pointer == nullptr) {
    ET_LOG(Error, "FusedQuantBackend: %s %u has no data", name.role,
           static_cast<unsigned>(name.index));
    return Error::InvalidArgument;
  }
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
    ET_LOG(Error, "FusedQuantBackend: %s %u is at %p, expected an address aligned to %u bytes",
           name.role, static_cast<unsigned>(name.index), pointer, static_cast<unsigned>(alignment));
    return Error::InvalidArgument;
  }
  *data = pointer;
  return Error::Ok;
}

}  // namespace fused_quant
