// SPDX-License-Identifier: BSD-3-Clause

#include "payload.h"

#include "numerics/float32.h"

namespace fused_quant {
namespace {

using schema::Storage;

constexpr uint8_t kIdentifier[] = {'F', 'Q', 'P', '1'};  // after the root offset
constexpr size_t kIdentifierPlace = sizeof(flatbuffers::uoffset_t);

// A payload may not be larger, so that sizes and offsets fit int32 on every target.
constexpr uint64_t kMaxPayloadBytes = 0x7fffffff;

// Root, tensors, two tables per operator and constants; see kMaxTensors and the others.
constexpr uint32_t kMaxTables = 1 + kMaxTensors + 2 * kMaxOps + kMaxConstants;
constexpr uint32_t kMaxDepth = 4;  // payload, operator, parameters; one to spare

Status invalid(const char* what, int64_t where = -1, int64_t got = 0, int64_t expected = 0) {
  return make_status(Code::kInvalidProgram, what, static_cast<int32_t>(where), got, expected);
}

template <typename Vector>
uint32_t size_of(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// The scale of an accumulator is a product of two scales that may leave the range of the others; no
// kernel reads it.
bool is_tensor_scale(float scale, schema::DType dtype) {
  const bool accumulator = dtype == schema::DType_s32 || dtype == schema::DType_s64;
  return accumulator ? float_bits(scale) < kFloatInfinity : is_scale(scale);
}

bool code_range(schema::DType dtype, int64_t* lo, int64_t* hi) {
  switch (dtype) {
    case schema::DType_s8:
      *lo = -128, *hi = 127;
      return true;
    case schema::DType_u8:
      *lo = 0, *hi = 255;
      return true;
    case schema::DType_s16:
      *lo = -32768, *hi = 32767;
      return true;
    case schema::DType_s32:
    case schema::DType_s64:  // zero points and bounds are 32-bit fields
      *lo = INT32_MIN, *hi = INT32_MAX;
      return true;
    case schema::DType_s4:
      *lo = -8, *hi = 7;
      return true;
    case schema::DType_f32:
    case schema::DType_b8:
      return false;
  }
  return false;
}

Status check_structure(const void* data, size_t size) {
  if (data == nullptr) return make_status(Code::kInvalidArgument, "payload is null");
  if (!is_aligned(data, kAlignment)) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    return make_status(Code::kInvalidArgument, "payload address is not 16-byte aligned", -1,
                       static_cast<int64_t>(address % kAlignment), 0);
  }
  if (size < 2 * sizeof(flatbuffers::uoffset_t) || size > kMaxPayloadBytes) {
    return invalid("payload size out of range", -1, static_cast<int64_t>(size), 8);
  }
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < sizeof(kIdentifier); ++i) {
    if (bytes[kIdentifierPlace + i] == kIdentifier[i]) continue;
    return make_status(Code::kInvalidCompatibility, "payload identifier is not FQP1");
  }
  flatbuffers::Verifier::Options options;
  options.max_depth = kMaxDepth;
  options.max_tables = kMaxTables;
  flatbuffers::Verifier verifier(bytes, size, options);
  if (!verifier.VerifyBuffer<schema::Payload>()) {
    return invalid("payload is truncated or corrupt");
  }
  const schema::Payload* payload = schema::GetPayload(data);
  if (payload->format_version() != kFormatVersion) {
    return make_status(Code::kInvalidCompatibility, "payload format version", -1,
                       payload->format_version(), kFormatVersion);
  }
  return Status();
}

Status check_counts(const schema::Payload& payload, PayloadCounts* counts) {
  counts->tensors = size_of(payload.tensors());
  counts->ops = size_of(payload.ops());
  if (counts->tensors > kMaxTensors) {
    return invalid("too many tensors", -1, counts->tensors, kMaxTensors);
  }
  if (counts->ops == 0 || counts->ops > kMaxOps) {
    return invalid("number of operators out of range", -1, counts->ops, kMaxOps);
  }
  const uint32_t constants = size_of(payload.constants());
  if (constants > kMaxConstants) return invalid("too many constants", -1, constants, kMaxConstants);
  uint64_t operands = 0;
  for (uint32_t i = 0; i < counts->ops; ++i) {
    const schema::Op* op = payload.ops()->Get(i);
    operands += uint64_t{size_of(op->inputs())} + size_of(op->outputs());
    if (operands > kMaxOperands) return invalid("too many operands", i, kMaxOperands + 1);
  }
  counts->operands = static_cast<uint32_t>(operands);
  return Status();
}

// `constant` has a key: what is provided under it must be what the payload was made with.
Status check_shared(const schema::Constant& constant, uint32_t index,
                    const ConstantSource& constants) {
  if (constant.data() != nullptr) return invalid("constant with a key and data", index);
  if (constant.key()->size() == 0) return invalid("constant with an empty key", index);
  if (constants.find == nullptr) {
    return invalid("shared constant, but nothing provides any", index);
  }
  const ConstantBytes found =
      constants.find(constants.context, constant.key()->c_str(), constant.key()->size());
  if (found.data == nullptr) {
    return invalid("shared constant is not provided under its key", index, 0, constant.size());
  }
  if (found.size != constant.size()) {
    return invalid("shared constant of another size", index, static_cast<int64_t>(found.size),
                   constant.size());
  }
  if (!is_aligned(found.data, kAlignment)) {
    const auto address = reinterpret_cast<uintptr_t>(found.data);
    return invalid("shared constant is not 16-byte aligned", index,
                   static_cast<int64_t>(address % kAlignment), 0);
  }
  return Status();
}

Status check_constants(const schema::Payload& payload, const ConstantSource& constants) {
  for (uint32_t i = 0; i < size_of(payload.constants()); ++i) {
    const schema::Constant& constant = *payload.constants()->Get(i);
    if (constant.key() != nullptr) {
      FQ_RETURN_IF_ERROR(check_shared(constant, i, constants));
    } else if (constant.size() != 0) {
      return invalid("constant with a size and no key", i, constant.size(), 0);
    }
  }
  return Status();
}

// Writes the bytes of the tensor.
Status check_sizes(const schema::Tensor& tensor, uint32_t index, uint64_t* bytes) {
  const uint32_t rank = size_of(tensor.shape());
  if (rank > kMaxRank) return invalid("tensor rank too large", index, rank, kMaxRank);
  *bytes = dtype_bytes(tensor.dtype());
  if (*bytes == 0) return invalid("unknown tensor dtype", index, tensor.dtype());
  for (uint32_t i = 0; i < rank; ++i) {
    // At most (2^31 - 1) * (2^32 - 1) < 2^63: no overflow before the check.
    *bytes *= tensor.shape()->Get(i);
    if (*bytes == 0) return invalid("tensor has no elements", index);
    if (*bytes > kMaxTensorBytes) {
      return invalid("tensor is too large", index, static_cast<int64_t>(*bytes), kMaxTensorBytes);
    }
  }
  if (tensor.dtype() == schema::DType_s4) {
    if (tensor.storage() != Storage::Storage_constant) {
      return invalid("s4 tensor that is no constant", index,
                     static_cast<int64_t>(tensor.storage()));
    }
    *bytes = (*bytes + 1) / 2;
  }
  const uint32_t orders = size_of(tensor.dim_order());
  if (orders == 0) return Status();
  if (orders != rank) return invalid("tensor dim_order length", index, orders, rank);
  uint32_t seen = 0;
  for (uint32_t i = 0; i < rank; ++i) {
    const uint32_t dim = tensor.dim_order()->Get(i);
    if (dim >= rank || (seen >> dim & 1u) != 0) {
      return invalid("tensor dim_order is no permutation", index, dim, rank);
    }
    seen |= 1u << dim;
  }
  return Status();
}

// The blocks with a scale of their own divide the tensor, and each has one.
Status check_blocks(const schema::Tensor& tensor, uint32_t index, uint32_t scales) {
  const uint32_t rank = size_of(tensor.shape());
  if (size_of(tensor.scale_shape()) != rank) {
    return invalid("tensor scale_shape length", index, size_of(tensor.scale_shape()), rank);
  }
  uint64_t blocks = 1;  // at most the number of elements
  for (uint32_t i = 0; i < rank; ++i) {
    const uint32_t count = tensor.scale_shape()->Get(i);
    const uint32_t extent = tensor.shape()->Get(i);
    if (count == 0 || extent % count != 0) {
      return invalid("tensor blocks do not divide a dimension", index, count, extent);
    }
    blocks *= count;
  }
  if (blocks != scales) {
    return invalid("tensor scales per block", index, scales, static_cast<int64_t>(blocks));
  }
  if (tensor.axis() == -1) return Status();
  return invalid("tensor quantization axis beside blocks", index, tensor.axis(), -1);
}

Status check_quantization(const schema::Tensor& tensor, uint32_t index) {
  const uint32_t scales = size_of(tensor.scale());
  const uint32_t zero_points = size_of(tensor.zero_point());
  if (scales != zero_points) {
    return invalid("tensor has unequal scales and zero points", index, scales, zero_points);
  }
  if (scales == 0) {
    const uint32_t blocks = size_of(tensor.scale_shape());
    return blocks == 0 ? Status() : invalid("tensor scale_shape without scales", index, blocks, 0);
  }
  int64_t lo = 0;
  int64_t hi = 0;
  if (!code_range(tensor.dtype(), &lo, &hi))
    return invalid("tensor of a dtype without codes has a scale", index);
  if (tensor.quant_min() > tensor.quant_max() || tensor.quant_min() < lo ||
      tensor.quant_max() > hi) {
    return invalid("tensor code range", index, tensor.quant_min(), lo);
  }
  if (size_of(tensor.scale_shape()) != 0) {
    FQ_RETURN_IF_ERROR(check_blocks(tensor, index, scales));
  } else if (scales > 1) {
    const int axis = tensor.axis();
    if (axis < 0 || static_cast<uint32_t>(axis) >= size_of(tensor.shape())) {
      return invalid("tensor quantization axis", index, axis);
    }
    const uint32_t extent = tensor.shape()->Get(static_cast<uint32_t>(axis));
    if (extent != scales) return invalid("tensor scales per channel", index, scales, extent);
  }
  for (uint32_t i = 0; i < scales; ++i) {
    if (!is_tensor_scale(tensor.scale()->Get(i), tensor.dtype())) {
      return invalid("tensor scale out of range", index, i);
    }
    const int32_t zero_point = tensor.zero_point()->Get(i);
    if (zero_point < lo || zero_point > hi) {
      return invalid("tensor zero point out of range", index, zero_point, lo);
    }
  }
  return Status();
}

Status check_place(const schema::Payload& payload, const schema::Tensor& tensor, uint32_t index,
                   uint64_t bytes) {
  const uint32_t location = tensor.location();
  switch (tensor.storage()) {
    case Storage::Storage_input:
      if (location >= size_of(payload.inputs()) || payload.inputs()->Get(location) != index) {
        return invalid("input tensor is not at its position", index, location);
      }
      return Status();
    case Storage::Storage_output:
      if (location >= size_of(payload.outputs()) || payload.outputs()->Get(location) != index) {
        return invalid("output tensor is not at its position", index, location);
      }
      return Status();
    case Storage::Storage_arena:
      if (location % kAlignment != 0) return invalid("arena offset alignment", index, location);
      if (location + bytes > payload.arena_bytes()) {
        return invalid("tensor exceeds the arena", index, static_cast<int64_t>(location + bytes),
                       payload.arena_bytes());
      }
      return Status();
    case Storage::Storage_constant: {
      if (location >= size_of(payload.constants())) {
        return invalid("constant index", index, location, size_of(payload.constants()));
      }
      const schema::Constant& constant = *payload.constants()->Get(location);
      const auto* content = constant.data();
      const uint32_t size = constant.key() != nullptr ? constant.size() : size_of(content);
      if (size != bytes) {
        return invalid("constant size", index, size, static_cast<int64_t>(bytes));
      }
      if (constant.key() != nullptr) return Status();  // its place is not the payload's
      if (!is_aligned(content->data(), kAlignment)) return invalid("constant alignment", index);
      return Status();
    }
  }
  return invalid("unknown tensor storage", index, tensor.storage());
}

// The tensor whose bytes `index` has: itself unless it is a view.
uint32_t owner_of(const schema::Payload& payload, uint32_t index) {
  const int32_t alias = payload.tensors()->Get(index)->alias();
  return alias < 0 ? index : static_cast<uint32_t>(alias);
}

Status check_view(const schema::Payload& payload, const schema::Tensor& tensor, uint32_t index,
                  uint64_t bytes) {
  if (tensor.alias() == -1) return Status();
  if (tensor.alias() < 0 || static_cast<uint32_t>(tensor.alias()) >= index) {
    return invalid("view of a tensor that is not before it", index, tensor.alias());
  }
  // Tensors are checked in order, so the owner's sizes are known to be good.
  const schema::Tensor& owner = *payload.tensors()->Get(static_cast<uint32_t>(tensor.alias()));
  if (owner.alias() != -1) return invalid("view of a view", index, tensor.alias());
  if (tensor.storage() != Storage::Storage_arena || owner.storage() != Storage::Storage_arena) {
    return invalid("view outside the arena", index, tensor.alias());
  }
  if (owner.location() != tensor.location()) {
    return invalid("view at another place than its owner", index, tensor.location(),
                   owner.location());
  }
  const TensorView view = tensor_view(payload, static_cast<uint32_t>(tensor.alias()));
  if (owner.dtype() != tensor.dtype() || tensor_bytes(view) != bytes) {
    return invalid("view of another size or dtype", index, static_cast<int64_t>(bytes),
                   static_cast<int64_t>(tensor_bytes(view)));
  }
  return Status();
}

Status check_boundary(const flatbuffers::Vector<uint32_t>* tensors, const schema::Payload& payload,
                      Storage storage) {
  for (uint32_t i = 0; i < size_of(tensors); ++i) {
    const uint32_t index = tensors->Get(i);
    if (index >= size_of(payload.tensors())) {
      return invalid("input or output index", i, index, size_of(payload.tensors()));
    }
    const schema::Tensor* tensor = payload.tensors()->Get(index);
    if (tensor->storage() != storage || tensor->location() != i) {
      return invalid("input or output is stored elsewhere", index, tensor->location(), i);
    }
  }
  return Status();
}

// True if an operator before `end` writes `tensor`. Searches backwards: producers are near.
bool is_written(const schema::Payload& payload, uint32_t end, uint32_t tensor) {
  for (uint32_t i = end; i > 0; --i) {
    const auto* outputs = payload.ops()->Get(i - 1)->outputs();
    for (uint32_t k = 0; k < size_of(outputs); ++k) {
      if (static_cast<uint32_t>(outputs->Get(k)) == tensor) return true;
    }
  }
  return false;
}

Status check_input_operands(const schema::Payload& payload, uint32_t op) {
  const auto* inputs = payload.ops()->Get(op)->inputs();
  const uint32_t tensors = size_of(payload.tensors());
  for (uint32_t k = 0; k < size_of(inputs); ++k) {
    const int32_t operand = inputs->Get(k);
    if (operand == -1) continue;
    const uint32_t index = static_cast<uint32_t>(operand);
    if (index >= tensors) return invalid("operand index", op, operand, tensors);
    const Storage storage = payload.tensors()->Get(index)->storage();
    if (storage == Storage::Storage_input || storage == Storage::Storage_constant) continue;
    if (!is_written(payload, op, owner_of(payload, index))) {
      return invalid("operand is read before it is written", op, operand);
    }
  }
  return Status();
}

Status check_output_operands(const schema::Payload& payload, uint32_t op) {
  const auto* outputs = payload.ops()->Get(op)->outputs();
  const uint32_t tensors = size_of(payload.tensors());
  for (uint32_t k = 0; k < size_of(outputs); ++k) {
    const int32_t operand = outputs->Get(k);
    const uint32_t index = static_cast<uint32_t>(operand);
    if (index >= tensors) return invalid("operand index", op, operand, tensors);
    const Storage storage = payload.tensors()->Get(index)->storage();
    if (storage == Storage::Storage_input || storage == Storage::Storage_constant) {
      return invalid("operator writes an input or a constant", op, operand);
    }
    if (owner_of(payload, index) != index) return invalid("operator writes a view", op, operand);
    if (is_written(payload, op, index)) return invalid("tensor is written twice", op, operand);
    for (uint32_t other = 0; other < k; ++other) {
      if (outputs->Get(other) == operand) return invalid("tensor is written twice", op, operand);
    }
  }
  return Status();
}

bool overlap(const schema::Payload& payload, uint32_t a, uint32_t b) {
  if (a == b) return true;
  const schema::Tensor* first = payload.tensors()->Get(a);
  const schema::Tensor* second = payload.tensors()->Get(b);
  if (first->storage() != Storage::Storage_arena || second->storage() != Storage::Storage_arena) {
    return false;
  }
  const uint64_t first_end = first->location() + uint64_t{tensor_bytes(tensor_view(payload, a))};
  const uint64_t second_end = second->location() + uint64_t{tensor_bytes(tensor_view(payload, b))};
  return first->location() < second_end && second->location() < first_end;
}

// Kernels may read an input after they have written part of an output.
Status check_overlap(const schema::Payload& payload, uint32_t op) {
  const auto* inputs = payload.ops()->Get(op)->inputs();
  const auto* outputs = payload.ops()->Get(op)->outputs();
  for (uint32_t k = 0; k < size_of(outputs); ++k) {
    const uint32_t output = static_cast<uint32_t>(outputs->Get(k));
    for (uint32_t i = 0; i < size_of(inputs); ++i) {
      if (inputs->Get(i) < 0) continue;
      if (overlap(payload, output, static_cast<uint32_t>(inputs->Get(i)))) {
        return invalid("output overlaps an input", op, output, inputs->Get(i));
      }
    }
    for (uint32_t other = 0; other < k; ++other) {
      if (overlap(payload, output, static_cast<uint32_t>(outputs->Get(other)))) {
        return invalid("outputs overlap", op, output, outputs->Get(other));
      }
    }
  }
  return Status();
}

Status check_program(const schema::Payload& payload) {
  for (uint32_t op = 0; op < size_of(payload.ops()); ++op) {
    FQ_RETURN_IF_ERROR(check_input_operands(payload, op));
    FQ_RETURN_IF_ERROR(check_output_operands(payload, op));
    FQ_RETURN_IF_ERROR(check_overlap(payload, op));
  }
  for (uint32_t i = 0; i < size_of(payload.outputs()); ++i) {
    const uint32_t tensor = payload.outputs()->Get(i);
    if (!is_written(payload, size_of(payload.ops()), tensor)) {
      return invalid("output is never written", tensor, i);
    }
  }
  return Status();
}

}  // namespace

Status open_payload(const void* data, size_t size, const ConstantSource& constants,
                    const schema::Payload** payload, PayloadCounts* counts) {
  FQ_RETURN_IF_ERROR(check_structure(data, size));
  const schema::Payload& root = *schema::GetPayload(data);
  PayloadCounts found;
  FQ_RETURN_IF_ERROR(check_counts(root, &found));
  FQ_RETURN_IF_ERROR(check_constants(root, constants));
  for (uint32_t i = 0; i < found.tensors; ++i) {
    const schema::Tensor& tensor = *root.tensors()->Get(i);
    uint64_t bytes = 0;
    FQ_RETURN_IF_ERROR(check_sizes(tensor, i, &bytes));
    FQ_RETURN_IF_ERROR(check_quantization(tensor, i));
    FQ_RETURN_IF_ERROR(check_place(root, tensor, i, bytes));
    FQ_RETURN_IF_ERROR(check_view(root, tensor, i, bytes));
  }
  FQ_RETURN_IF_ERROR(check_boundary(root.inputs(), root, Storage::Storage_input));
  FQ_RETURN_IF_ERROR(check_boundary(root.outputs(), root, Storage::Storage_output));
  FQ_RETURN_IF_ERROR(check_program(root));
  *payload = &root;
  *counts = found;
  return Status();
}

TensorView tensor_view(const schema::Payload& payload, uint32_t index,
                       const ConstantSource& constants) {
  const schema::Tensor& tensor = *payload.tensors()->Get(index);
  TensorView view;
  view.rank = static_cast<uint8_t>(size_of(tensor.shape()));
  view.dtype = tensor.dtype();
  for (uint32_t i = 0; i < view.rank; ++i) view.dim[i] = tensor.shape()->Get(i);
  if (tensor.storage() != Storage::Storage_constant) return view;
  const schema::Constant& constant = *payload.constants()->Get(tensor.location());
  const flatbuffers::String* key = constant.key();
  const void* bytes = nullptr;
  if (key == nullptr) {
    bytes = constant.data()->data();
  } else if (constants.find != nullptr) {
    bytes = constants.find(constants.context, key->c_str(), key->size()).data;
  }
  // Operands that are written are never constants, so nothing writes through this pointer.
  view.data = const_cast<void*>(bytes);
  return view;
}

}  // namespace fused_quant
