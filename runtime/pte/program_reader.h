// SPDX-License-Identifier: BSD-3-Clause
//
// Reads a fully delegated ExecuTorch program (.pte) in place, without ExecuTorch: a method whose
// only instruction is a call of our delegate. Freestanding and heap-free; every byte of the file is
// checked before it is used, and a file that cannot be run this way gives an error that says why.
#pragma once

#include <cstddef>
#include <cstdint>

#include "constant_source.h"
#include "status.h"

namespace executorch_flatbuffer {
struct ExecutionPlan;
struct Program;
}  // namespace executorch_flatbuffer

namespace fused_quant::pte {

inline constexpr char kBackendId[] = "FusedQuantBackend";
inline constexpr char kDefaultMethod[] = "forward";

// Both the file and the payload inside it must start at a multiple of this.
inline constexpr size_t kAlignment = 16;
// ExecuTorch's own limit (kTensorDimensionLimit).
inline constexpr uint32_t kMaxTensorRank = 16;
// More program inputs or outputs than this are refused, which bounds the work on a hostile file.
inline constexpr uint32_t kMaxArguments = 256;

// A program input or output as the .pte describes it; the pointers point into the file.
struct ProgramTensor {
  int8_t scalar_type;        // executorch ScalarType
  uint8_t rank;              // at most kMaxTensorRank
  const int32_t* sizes;      // `rank` logical sizes, each >= 0
  const uint8_t* dim_order;  // `rank` entries, a permutation: logical dimension of each stored one
  size_t nbytes;             // bytes of the dense tensor
};

// A view of one method. The file must outlive it. Accessors never fail after a successful open();
// an index must be below its count.
class ProgramReader {
 public:
  // Checks the file and finds `method` and its delegate call. On error `reader` is left as it was.
  //   kInvalidCompatibility  not a .pte, or of another schema version
  //   kInvalidProgram        damaged: truncated, out-of-range index, offset or size
  //   kNotSupported          valid, but not fully delegated to `backend_id`, or of dynamic shape
  //   kInvalidArgument       null or misaligned `pte`, or no such method
  static Status open(const void* pte, size_t size, ProgramReader* reader,
                     const char* method = kDefaultMethod, const char* backend_id = kBackendId);

  // The delegate's payload, in place: inside the file and kAlignment-aligned.
  const void* payload() const { return payload_; }
  size_t payload_size() const { return payload_size_; }

  // The program's named data: constants that its methods share, in place. To be used while this
  // reader is where it is.
  ConstantSource constants() { return {find_constant, this}; }

  // Inputs and outputs of the program, as the user's model has them.
  uint32_t num_inputs() const { return num_inputs_; }
  uint32_t num_outputs() const { return num_outputs_; }
  ProgramTensor input(uint32_t index) const;
  ProgramTensor output(uint32_t index) const;

  // Arguments of the delegate call. A program input may feed none, one or several of them.
  uint32_t num_delegate_inputs() const { return num_delegate_inputs_; }
  uint32_t num_delegate_outputs() const { return num_delegate_outputs_; }
  // The program input that feeds delegate input `index`.
  uint32_t delegate_input(uint32_t index) const;
  // The delegate output that gives program output `index`. A program may return one value twice.
  uint32_t output_source(uint32_t index) const;

 private:
  Status find_plan(const char* method);
  Status find_payload(const char* backend_id);
  Status find_call();
  Status check_arguments();
  Status check_tensor(int32_t value, int32_t where) const;
  Status check_named_data() const;
  Status locate_segment(uint32_t index, ConstantBytes* bytes) const;
  static ConstantBytes find_constant(void* context, const char* key, size_t key_length);
  ProgramTensor tensor(uint32_t value) const;

  const executorch_flatbuffer::Program* program_ = nullptr;
  const uint8_t* segments_ = nullptr;  // the bytes that segments may use
  size_t segments_size_ = 0;
  const executorch_flatbuffer::ExecutionPlan* plan_ = nullptr;
  const int32_t* arguments_ = nullptr;  // value indices: the delegate's inputs, then its outputs
  const void* payload_ = nullptr;
  size_t payload_size_ = 0;
  uint32_t delegate_ = 0;
  uint32_t num_inputs_ = 0;
  uint32_t num_outputs_ = 0;
  uint32_t num_delegate_inputs_ = 0;
  uint32_t num_delegate_outputs_ = 0;
};

}  // namespace fused_quant::pte
