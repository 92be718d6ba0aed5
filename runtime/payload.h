// SPDX-License-Identifier: BSD-3-Clause
//
// Opening a payload: everything that does not depend on an operator's kind is verified here, so
// that later code may follow any index without looking. Nothing in a payload is trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "constant_source.h"
#include "status.h"
#include "tensor_view.h"

namespace fused_quant {

constexpr uint32_t kFormatVersion = 1;
constexpr size_t kAlignment = 16;  // payload, constants, arena, arena offsets, persistent block

// Limits that keep verification of a hostile payload short; far above real programs.
constexpr uint32_t kMaxTensors = 16384;
constexpr uint32_t kMaxOps = 4096;
constexpr uint32_t kMaxConstants = 16384;
constexpr uint32_t kMaxOperands = 32768;  // entries of all operators together

constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

inline bool is_aligned(const void* pointer, size_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

// What the plan's memory is computed from.
struct PayloadCounts {
  uint32_t tensors = 0;
  uint32_t ops = 0;
  uint32_t operands = 0;
};

// Verifies `size` bytes at `data`:
//   base alignment (kInvalidArgument); identifier and format version (kInvalidCompatibility);
//   the flatbuffer's structure; every tensor's dtype, sizes, place, quantization and dimension
//   order; constants' sizes and alignment, of shared ones those that `constants` gives; inputs and
//   outputs one to one with their tensors;
//   operand indices; execution order: a step reads only delegate inputs, constants and what an
//   earlier step wrote, every tensor is written at most once, every delegate output exactly once;
//   no output of a step overlaps another operand of it (kInvalidProgram).
// On success `*payload` points into `data`. Operators' parameters are not looked at.
Status open_payload(const void* data, size_t size, const ConstantSource& constants,
                    const schema::Payload** payload, PayloadCounts* counts);

// The tensor of an opened payload. Data is set for constants, null for others; for a shared
// constant it is what `constants` gives.
TensorView tensor_view(const schema::Payload& payload, uint32_t index,
                       const ConstantSource& constants = ConstantSource());

}  // namespace fused_quant
