// SPDX-License-Identifier: BSD-3-Clause
//
// What an operator sees: OpContext while it is prepared, Step while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "isa.h"
#include "payload.h"
#include "status.h"
#include "tensor_view.h"

namespace fused_quant {

struct Kernel;

// One operator ready to run. Operands are inputs, then outputs; an absent one is null.
struct Step {
  const Kernel* kernel = nullptr;
  const TensorView* const* operands = nullptr;
  const void* parameters = nullptr;
  void* scratch = nullptr;
  uint32_t num_inputs = 0;

  const TensorView* operand(uint32_t index) const { return operands[index]; }
  template <typename T>
  const T* input(uint32_t index) const {
    return static_cast<const T*>(operands[index]->data);
  }
  template <typename T>
  T* output(uint32_t index) const {
    return static_cast<T*>(operands[num_inputs + index]->data);
  }
  template <typename T>
  const T& params() const {
    return *static_cast<const T*>(parameters);
  }
};

constexpr size_t kMaxParamsBytes = 256;  // of one operator's parameter block, 8-byte aligned

// What preparing an operator asks for. Scratch is 16-byte aligned, holds anything when a step
// starts, and is shared with the other steps.
struct Prepared {
  size_t params_bytes = 0;  // bytes of the parameter block in use
  uint64_t scratch_bytes = 0;
};

// Starts the parameter block of an operator: a plain struct of type T.
template <typename T>
T* new_params(void* params, Prepared* prepared) {
  static_assert(sizeof(T) <= kMaxParamsBytes && alignof(T) <= 8, "see kParamsBytes in plan.h");
  prepared->params_bytes = sizeof(T);
  return new (params) T();
}

// The payload's view of one operator, while it is validated. Operand indices are verified; shapes
// are positive; no output region overlaps an input or another output.
class OpContext {
 public:
  OpContext(const schema::Payload& payload, uint32_t index, Isa isa,
            const ConstantSource& constants)
      : payload_(payload),
        op_(*payload.ops()->Get(index)),
        constants_(constants),
        index_(index),
        isa_(isa) {}

  Isa isa() const { return isa_; }  // of the kernel that will run
  uint32_t num_inputs() const { return op_.inputs() == nullptr ? 0 : op_.inputs()->size(); }
  uint32_t num_outputs() const { return op_.outputs() == nullptr ? 0 : op_.outputs()->size(); }
  bool has_input(uint32_t index) const {
    return index < num_inputs() && op_.inputs()->Get(index) >= 0;
  }
  // Data is set for constants and null otherwise. The operand must be present.
  TensorView input(uint32_t index) const { return view(op_.inputs()->Get(index)); }
  TensorView output(uint32_t index) const { return view(op_.outputs()->Get(index)); }
  // The operator's parameters, or null when the payload holds those of another family.
  template <typename T>
  const T* params() const {
    return op_.params_as<T>();
  }

  Status invalid(const char* what, int64_t got = 0, int64_t expected = 0) const {
    return make_status(Code::kInvalidProgram, what, static_cast<int32_t>(index_), got, expected);
  }

 private:
  TensorView view(int32_t tensor) const {
    return tensor_view(payload_, static_cast<uint32_t>(tensor), constants_);
  }

  const schema::Payload& payload_;
  const schema::Op& op_;
  const ConstantSource& constants_;
  uint32_t index_;
  Isa isa_;
};

// Validates one operator completely and writes its parameter block, at most kMaxParamsBytes bytes.
using PrepareFunction = Status (*)(const OpContext& context, void* params, Prepared* prepared);
using KernelFunction = void (*)(const Step& step);

// One line of kernels.inc.
struct Kernel {
  schema::OpCode opcode;
  schema::DType dtype;
  Isa isa;
  PrepareFunction prepare;
  KernelFunction run;
  const char* op;    // "conv2d"
  const char* name;  // "conv2d_s8_scalar"
};

// The first line of kernels.inc for the operator and dtype that `isa` allows; null if none.
const Kernel* find_kernel(schema::OpCode opcode, schema::DType dtype, Isa isa);

// The table itself, for tests and reports.
uint32_t num_kernels();
const Kernel& kernel_at(uint32_t index);

}  // namespace fused_quant
