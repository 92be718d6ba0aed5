// SPDX-License-Identifier: BSD-3-Clause
//
// What the loader refuses whatever the operators are. Random damage is tests/fuzz's business.

#include <cmath>
#include <cstring>
#include <limits>

#include "refusal.h"

namespace fused_quant::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// every_kind() with `change` ends in `code` and `what`.
void expect(Code code, const char* what, const Change& change) {
  ProgramSpec program = every_kind();
  change(program);
  expect(program, code, what);
}

void refuse(const char* what, const Change& change) { expect(Code::kInvalidProgram, what, change); }

void accept(const Change& change) { expect(Code::kOk, "", change); }

TEST(Loader, AcceptsEveryKind) {
  accept([](auto&) {});
}

TEST(Loader, IdentifierAndVersion) {
  expect(Code::kInvalidCompatibility, "payload identifier is not FQP1",
         [](auto& p) { p.identifier = "FQP2"; });
  for (const uint32_t version : {0u, 2u, 0xffffffffu}) {
    expect(Code::kInvalidCompatibility, "payload format version",
           [version](auto& p) { p.format_version = version; });
  }
}

TEST(Loader, NullShortAndMisalignedPayloads) {
  MemoryNeeds needs;
  EXPECT_EQ(memory_needs(nullptr, 100, &needs).code, Code::kInvalidArgument);
  const Block payload = every_kind().write();
  for (size_t size = 0; size < payload.size(); ++size) {
    Block cut(size);
    std::memcpy(cut.data(), payload.data(), size);
    const Status status = memory_needs(cut.data(), size, &needs);
    // The padding behind the last constant may be missing: nothing reads it.
    const bool only_padding = std::all_of(payload.data() + size, payload.data() + payload.size(),
                                          [](uint8_t byte) { return byte == 0; });
    if (only_padding && payload.size() - size < 16) continue;
    ASSERT_NE(status.code, Code::kOk) << size;
    if (size < 8) {
      ASSERT_STREQ(status.what, "payload size out of range");
    }
  }
  for (size_t lead = 0; lead < 16; ++lead) {
    Block moved(payload.size(), 0, lead);
    std::memcpy(moved.data(), payload.data(), payload.size());
    const Status status = memory_needs(moved.data(), payload.size(), &needs);
    EXPECT_EQ(status.code, lead == 0 ? Code::kOk : Code::kInvalidArgument) << lead;
  }
}

TEST(Loader, ConstantsMustBeAligned) {
  // The same payload 4 bytes further: the root offset leads past a gap, so that structure and
  // alignment up to 4 bytes are right and only the constants are out of place.
  const Block payload = every_kind().write();
  Block moved(payload.size() + 4);
  std::memcpy(moved.data() + 4, payload.data(), payload.size());
  uint32_t root = 0;
  std::memcpy(&root, payload.data(), 4);
  root += 4;
  std::memcpy(moved.data(), &root, 4);
  std::memcpy(moved.data() + 4, "FQP1", 4);
  MemoryNeeds needs;
  EXPECT_STREQ(memory_needs(moved.data(), moved.size(), &needs).what, "constant alignment");
}

TEST(Loader, Counts) {
  refuse("number of operators out of range", [](auto& p) { p.ops.clear(); });
  refuse("number of operators out of range",
         [](auto& p) { p.ops.insert(p.ops.end(), kMaxOps, p.ops[0]); });
  refuse("too many tensors",
         [](auto& p) { p.tensors.insert(p.tensors.end(), kMaxTensors, p.tensors[1]); });
  refuse("too many constants", [](auto& p) { p.constants.resize(kMaxConstants + 1); });
  refuse("too many operands", [](auto& p) { p.ops[0].inputs.resize(kMaxOperands, -1); });
}

TEST(Loader, Sizes) {
  refuse("tensor rank too large", [](auto& p) { p.tensors[1].shape.assign(7, 1); });
  refuse("tensor has no elements", [](auto& p) { p.tensors[1].shape[1] = 0; });
  refuse("tensor is too large", [](auto& p) { p.tensors[0].shape = {1u << 29}; });
  refuse("tensor is too large", [](auto& p) { p.tensors[1].shape = {65536, 65536, 65536, 65536}; });
  refuse("tensor is too large", [](auto& p) { p.tensors[1].shape = {0xffffffff, 0xffffffff}; });
  refuse("unknown tensor dtype",
         [](auto& p) { p.tensors[1].dtype = static_cast<schema::DType>(schema::DType_MAX + 1); });
  refuse("s4 tensor that is no constant", [](auto& p) { p.tensors[1].dtype = schema::DType_s4; });
  refuse("tensor dim_order length", [](auto& p) { p.tensors[1].dim_order = {0}; });
  refuse("tensor dim_order length", [](auto& p) { p.tensors[1].dim_order = {0, 1, 2, 3, 4}; });
  refuse("tensor dim_order is no permutation", [](auto& p) {
    p.tensors[1].dim_order = {0, 1, 1, 2};
  });
  refuse("tensor dim_order is no permutation", [](auto& p) {
    p.tensors[1].dim_order = {0, 1, 2, 200};
  });
  accept([](auto& p) { p.tensors[1].dim_order = {0, 2, 3, 1}; });
}

TEST(Loader, Quantization) {
  for (const float bad : {kNan, INFINITY, -INFINITY, 0.0f, -0.5f, 1e-40f, 3e38f}) {
    refuse("tensor scale out of range", [bad](auto& p) { p.tensors[1].scale = {bad}; });
  }
  // An accumulator's scale is a product: zero and the far ends are possible.
  const auto bias_scale = [](float scale) {
    return [scale](ProgramSpec& p) { input_of(p, schema::OpCode_conv2d, 2).scale = {scale}; };
  };
  for (const float fine : {0.0f, 1e-40f, 3e38f}) accept(bias_scale(fine));
  for (const float bad : {kNan, INFINITY, -1.0f})
    refuse("tensor scale out of range", bias_scale(bad));
  refuse("tensor has unequal scales and zero points", [](auto& p) {
    p.tensors[1].zero_point = {0, 0};
  });
  refuse("tensor zero point out of range", [](auto& p) { p.tensors[1].zero_point = {128}; });
  refuse("tensor code range", [](auto& p) { p.tensors[1].quant_min = -129; });
  refuse("tensor code range", [](auto& p) { p.tensors[1].quant_max = 128; });
  refuse("tensor code range",
         [](auto& p) { p.tensors[1].quant_min = 1, p.tensors[1].quant_max = 0; });
  const auto per_channel = [](size_t length, int8_t axis) {
    return [length, axis](ProgramSpec& p) {
      p.tensors[1].scale.assign(length, 1.0f);
      p.tensors[1].zero_point.assign(length, 0);
      p.tensors[1].axis = axis;
    };
  };
  accept(per_channel(2, 3));
  refuse("tensor quantization axis", per_channel(2, 4));
  refuse("tensor quantization axis", per_channel(2, -1));
  refuse("tensor scales per channel", per_channel(3, 3));
  refuse("tensor of a dtype without codes has a scale",
         [](auto& p) { p.tensors[0].scale = {1}, p.tensors[0].zero_point = {0}; });
  refuse("tensor of a dtype without codes has a scale", [](auto& p) {
    p.tensors[0].dtype = schema::DType_b8;
    p.tensors[0].scale = {1}, p.tensors[0].zero_point = {0};
  });
}

TEST(Loader, Places) {
  refuse("unknown tensor storage",
         [](auto& p) { p.tensors[1].storage = static_cast<schema::Storage>(4); });
  refuse("arena offset alignment", [](auto& p) { p.tensors[1].location = 8; });
  refuse("tensor exceeds the arena", [](auto& p) { p.tensors[1].location = 0xfffffff0u; });
  refuse("tensor exceeds the arena", [](auto& p) { p.arena_bytes -= 16; });
  refuse("constant index", [](auto& p) { input_of(p, schema::OpCode_conv2d, 1).location = 99; });
  refuse("constant size", [](auto& p) { p.constants[0].pop_back(); });
  refuse("constant size", [](auto& p) { p.constants[0].push_back(0); });
  refuse("constant size", [](auto& p) { p.constants[0].clear(); });
}

TEST(Loader, InputsAndOutputs) {
  refuse("input or output index", [](auto& p) { p.inputs.push_back(1000); });
  refuse("input or output is stored elsewhere", [](auto& p) { p.inputs.push_back(1); });
  refuse("input or output is stored elsewhere", [](auto& p) { p.inputs.push_back(0); });
  refuse("input or output is stored elsewhere", [](auto& p) { p.outputs.push_back(0); });
  refuse("input tensor is not at its position", [](auto& p) { p.tensors[0].location = 1; });
  refuse("input tensor is not at its position", [](auto& p) { p.inputs.clear(); });
  refuse("input tensor is not at its position", [](auto& p) {
    p.tensors.push_back(p.tensors[0]);  // a second one for the same position
  });
  refuse("output tensor is not at its position",
         [](auto& p) { std::swap(p.outputs[0], p.outputs[1]); });
  refuse("output tensor is not at its position", [](auto& p) { p.outputs.pop_back(); });
}

TEST(Loader, Order) {
  refuse("operand is read before it is written", [](auto& p) { std::swap(p.ops[0], p.ops[1]); });
  refuse("operand is read before it is written",
         [](auto& p) { p.ops[1].inputs[0] = p.ops[1].outputs[0]; });
  refuse("operand index", [](auto& p) { p.ops[1].inputs[0] = 1000; });
  refuse("operand index", [](auto& p) { p.ops[1].inputs[0] = -2; });
  refuse("operand index", [](auto& p) { p.ops[1].outputs[0] = -1; });
  refuse("required input is absent", [](auto& p) { p.ops[1].inputs[0] = -1; });
  refuse("operator writes an input or a constant", [](auto& p) { p.ops[1].outputs[0] = 0; });
  refuse("operator writes an input or a constant",
         [](auto& p) { p.ops[1].outputs[0] = p.ops[1].inputs[1]; });
  refuse("tensor is written twice", [](auto& p) { p.ops[2].outputs[0] = p.ops[0].outputs[0]; });
  refuse("tensor is written twice",
         [](auto& p) { p.ops[0].outputs.push_back(p.ops[0].outputs[0]); });
  refuse("output is never written", [](auto& p) { p.ops.pop_back(); });
}

TEST(Loader, Overlap) {
  const auto place_output = [](uint32_t beyond) {
    return [beyond](ProgramSpec& p) {
      output_of(p, schema::OpCode_conv2d).location =
          output_of(p, schema::OpCode_quantize).location + beyond;
    };
  };
  refuse("output overlaps an input", place_output(0));
  refuse("output overlaps an input", place_output(64));  // of 72 bytes
  refuse("outputs overlap", [](auto& p) {
    TensorSpec second = output_of(p, schema::OpCode_quantize);
    second.location += 16;
    p.tensors.push_back(second);
    p.ops[0].outputs.push_back(static_cast<int32_t>(p.tensors.size() - 1));
  });
  refuse("output overlaps an input", [](auto& p) {  // through a view
    TensorSpec& logits = output_of(p, schema::OpCode_linear);
    logits.location = input_of(p, schema::OpCode_linear, 0).location;
  });
}

TEST(Loader, Views) {
  const auto view = [](ProgramSpec& p) -> TensorSpec& {
    return input_of(p, schema::OpCode_linear, 0);
  };
  const auto index_of = [](ProgramSpec& p, const TensorSpec& tensor) {
    return static_cast<int32_t>(&tensor - p.tensors.data());
  };
  const char* const not_before = "view of a tensor that is not before it";
  refuse(not_before, [&](auto& p) { view(p).alias = index_of(p, view(p)); });
  refuse(not_before, [&](auto& p) { view(p).alias = 1000; });
  refuse(not_before, [&](auto& p) { view(p).alias = -2; });
  refuse("view of a view", [&](auto& p) {
    TensorSpec again = view(p);
    again.alias = index_of(p, view(p));
    p.tensors.push_back(again);
  });
  refuse("view outside the arena", [&](auto& p) { view(p).alias = 2; });
  refuse("view outside the arena", [&](auto& p) { p.tensors.back().alias = 1; });
  refuse("view at another place than its owner", [&](auto& p) { view(p).location -= 16; });
  refuse("view of another size or dtype", [&](auto& p) { view(p).shape = {4, 7}; });
  refuse("view of another size or dtype",
         [&](auto& p) { view(p).dtype = schema::DType_u8, view(p).quant_min = 0; });
  refuse("operator writes a view", [&](auto& p) {
    find_op(p, schema::OpCode_adaptive_avg_pool2d).outputs[0] = index_of(p, view(p));
  });
}

TEST(Loader, OperatorsWithoutAKernel) {
  const char* const none = "no kernel for this operator and dtype";
  expect(Code::kOperatorMissing, none,
         [](auto& p) { p.ops[1].opcode = static_cast<schema::OpCode>(1000); });
  expect(Code::kOperatorMissing, none, [](auto& p) {
    output_of(p, schema::OpCode_conv2d).dtype = schema::DType_u8;
    output_of(p, schema::OpCode_conv2d).quant_min = 0;
  });
}

}  // namespace
}  // namespace fused_quant::testing
