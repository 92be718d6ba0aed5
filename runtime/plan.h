// SPDX-License-Identifier: BSD-3-Clause
//
// A plan: a verified payload made ready to run. Creating it decides everything (bounds, kernels,
// addresses); executing it binds pointers and walks a flat array of steps, and cannot fail.
//
// Memory belongs to the caller and is never allocated here:
//   payload     read in place, must outlive the plan, 16-byte aligned
//   constants   those the payload shares with others (Options::constants), likewise
//   persistent  the plan itself, 16-byte aligned, MemoryNeeds::persistent_bytes
//   arena       activations and scratch, 16-byte aligned, MemoryNeeds::arena_bytes; its contents
//               need not survive between two executions and never influence a result
// A plan is used by one thread at a time; separate plans are independent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"
#include "op.h"
#include "payload.h"
#include "status.h"
#include "tensor_view.h"

namespace fused_quant {

// Bounds of the plan's memory on any target, for the ahead-of-time estimate in a payload:
//   persistent_bytes <= round_up(kPlanHeaderBytes + tensors * kTensorBytes + ops * kStepBytes
//                                + operands * kOperandBytes + ops * kParamsBytes, 16)
// where `operands` counts all input and output entries of all operators, absent ones included.
// memory_plan.py holds the same numbers; plan.cpp asserts the structs against them.
constexpr size_t kPlanHeaderBytes = 128;
constexpr size_t kTensorBytes = 40;
constexpr size_t kStepBytes = 64;
constexpr size_t kOperandBytes = 8;
constexpr size_t kParamsBytes = 256;  // the largest parameter block an operator may prepare

struct MemoryNeeds {
  size_t persistent_bytes = 0;
  size_t arena_bytes = 0;  // the payload's arena, then the largest scratch of a step
};

struct Options {
  // Name of the best instruction set to use ("scalar"); null or empty = the best there is. A name
  // this build or this processor cannot run is an error, never a fallback.
  const char* isa = nullptr;
  // Gives the constants that the payload shares with others; needed only by a payload that does.
  ConstantSource constants;
};

// Verifies all of `payload` and states what Plan::create will need. `needs` is only written on
// success.
Status memory_needs(const void* payload, size_t size, MemoryNeeds* needs,
                    const Options& options = Options());

// What a caller must know about a delegate input or output.
struct TensorInfo {
  TensorView view;  // sizes as stored; data is null
  size_t nbytes = 0;
  const char* name = "";  // never null
  // dim_order[i] is the logical dimension behind stored dimension i; null = identity.
  const uint8_t* dim_order = nullptr;
};

class Plan {
 public:
  // Makes a plan inside `persistent`. On error `out` is not written and neither block holds
  // anything worth keeping.
  static Status create(const void* payload, size_t size, void* persistent, size_t persistent_size,
                       void* arena, size_t arena_size, Plan** out,
                       const Options& options = Options());

  uint32_t num_inputs() const { return num_inputs_; }
  uint32_t num_outputs() const { return num_outputs_; }
  uint32_t num_steps() const { return num_steps_; }

  // index < num_inputs() or num_outputs().
  TensorInfo input(uint32_t index) const;
  TensorInfo output(uint32_t index) const;

  // index < num_steps(). Names are never null and live as long as the payload and the program.
  const char* step_name(uint32_t index) const;    // the operator's name in the payload
  const char* step_op(uint32_t index) const;      // "conv2d"
  const char* step_kernel(uint32_t index) const;  // "conv2d_s8_scalar"
  Isa step_isa(uint32_t index) const;

  // Runs every step. `inputs` and `outputs` hold one pointer per delegate input and output, aligned
  // to the size of an element, to non-overlapping dense buffers of TensorInfo::nbytes bytes.
  void execute(const void* const* inputs, void* const* outputs);

  // The two halves of execute(), for a caller that times each step: bind, then run_step(0),
  // run_step(1) and so on.
  void bind(const void* const* inputs, void* const* outputs);
  void run_step(uint32_t index) { steps_[index].kernel->run(steps_[index]); }

 private:
  struct Builder;

  TensorInfo info(uint32_t tensor) const;

  const schema::Payload* payload_ = nullptr;
  TensorView* tensors_ = nullptr;
  Step* steps_ = nullptr;
  uint32_t num_steps_ = 0;
  uint32_t num_inputs_ = 0;
  uint32_t num_outputs_ = 0;
};

}  // namespace fused_quant
