// SPDX-License-Identifier: BSD-3-Clause
//
// One rule broken at a time. The message is compared too: a payload that is refused by another rule
// than the one a test is about proves nothing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "plan.h"
#include "program_builder.h"

namespace fused_quant::testing {

using Change = std::function<void(ProgramSpec&)>;

inline Status load(const ProgramSpec& program) {
  const Block payload = program.write();
  MemoryNeeds needs;
  return memory_needs(payload.data(), payload.size(), &needs);
}

inline OpSpec& find_op(ProgramSpec& p, schema::OpCode opcode) {
  return *std::find_if(p.ops.begin(), p.ops.end(),
                       [opcode](const OpSpec& op) { return op.opcode == opcode; });
}

inline ParamsSpec& params(ProgramSpec& p, schema::OpCode opcode) {
  return find_op(p, opcode).params;
}

inline TensorSpec& tensor_at(ProgramSpec& p, int32_t index) {
  return p.tensors[static_cast<size_t>(index)];
}

inline TensorSpec& output_of(ProgramSpec& p, schema::OpCode opcode) {
  return tensor_at(p, find_op(p, opcode).outputs[0]);
}

inline TensorSpec& input_of(ProgramSpec& p, schema::OpCode opcode, size_t operand) {
  return tensor_at(p, find_op(p, opcode).inputs[operand]);
}

inline void expect(const ProgramSpec& program, Code code, const char* what) {
  const Status status = load(program);
  EXPECT_EQ(status.code, code) << "instead of \"" << what << "\"";
  EXPECT_STREQ(status.what, what) << "at " << status.where << ", got " << status.got
                                  << ", expected " << status.expected;
}

}  // namespace fused_quant::testing
