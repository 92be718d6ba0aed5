// SPDX-License-Identifier: BSD-3-Clause
//
// What the loader refuses, and with which code. Random damage is tests/fuzz's business; here each
// rule is broken alone, so that a rule that is gone fails a test.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "plan.h"
#include "program_builder.h"

namespace fused_quant::testing {
namespace {

using Change = std::function<void(ProgramSpec&)>;

Status load(const ProgramSpec& program) {
  const Block payload = program.write();
  MemoryNeeds needs;
  return memory_needs(payload.data(), payload.size(), &needs);
}

OpSpec& find_op(ProgramSpec& p, schema::OpCode opcode) {
  return *std::find_if(p.ops.begin(), p.ops.end(),
                       [opcode](const OpSpec& op) { return op.opcode == opcode; });
}

ParamsSpec& params(ProgramSpec& p, schema::OpCode opcode) { return find_op(p, opcode).params; }

TensorSpec& output_of(ProgramSpec& p, schema::OpCode opcode) {
  return p.tensors[static_cast<size_t>(find_op(p, opcode).outputs[0])];
}

TensorSpec& input_of(ProgramSpec& p, schema::OpCode opcode, size_t operand) {
  return p.tensors[static_cast<size_t>(find_op(p, opcode).inputs[operand])];
}

void expect(const char* what, Code code, const Change& change) {
  ProgramSpec program = every_kind();
  change(program);
  const Status status = load(program);
  EXPECT_EQ(status.code, code) << what << ": \"" << status.what << "\" at " << status.where;
}

void refuse(const char* what, const Change& change) { expect(what, Code::kInvalidProgram, change); }

TEST(Loader, AcceptsEveryKind) {
  const Status status = load(every_kind());
  EXPECT_TRUE(status.ok()) << status.what << " at " << status.where << ": got " << status.got
                           << ", expected " << status.expected;
}

TEST(Loader, IdentifierAndVersion) {
  expect("identifier", Code::kInvalidCompatibility, [](auto& p) { p.identifier = "FQP2"; });
  expect("version 0", Code::kInvalidCompatibility, [](auto& p) { p.format_version = 0; });
  expect("version 2", Code::kInvalidCompatibility, [](auto& p) { p.format_version = 2; });
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
  }
  for (size_t lead = 0; lead < 16; ++lead) {
    Block moved(payload.size(), 0, lead);
    std::memcpy(moved.data(), payload.data(), payload.size());
    const Status status = memory_needs(moved.data(), payload.size(), &needs);
    EXPECT_EQ(status.code, lead == 0 ? Code::kOk : Code::kInvalidArgument) << lead;
  }
}

TEST(Loader, Tensors) {
  refuse("rank 7", [](auto& p) { p.tensors[0].shape.assign(7, 1); });
  refuse("no elements", [](auto& p) { p.tensors[1].shape[1] = 0; });
  refuse("size product", [](auto& p) { p.tensors[1].shape = {65536, 65536, 65536, 65536}; });
  refuse("product wraps to 1", [](auto& p) { p.tensors[1].shape = {0xffffffff, 0xffffffff}; });
  refuse("dtype", [](auto& p) { p.tensors[1].dtype = static_cast<schema::DType>(6); });
  refuse("storage", [](auto& p) { p.tensors[1].storage = static_cast<schema::Storage>(4); });
  refuse("arena offset", [](auto& p) { p.tensors[1].location = 8; });
  refuse("beyond the arena", [](auto& p) { p.tensors[1].location = 0xfffffff0u; });
  refuse("arena too small", [](auto& p) {
    --p.arena_bytes;
    p.arena_bytes -= 15;
  });
  refuse("dim_order length", [](auto& p) { p.tensors[1].dim_order = {0}; });
  refuse("dim_order twice", [](auto& p) { p.tensors[1].dim_order = {0, 1, 1, 2}; });
  refuse("dim_order range", [](auto& p) { p.tensors[1].dim_order = {0, 1, 2, 200}; });
  expect("dim_order", Code::kOk, [](auto& p) { p.tensors[1].dim_order = {0, 2, 3, 1}; });
}

TEST(Loader, Quantization) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, INFINITY, -INFINITY, 0.0f, -0.5f, 1e-40f, 3e38f}) {
    refuse("scale", [bad](auto& p) { p.tensors[1].scale = {bad}; });
    refuse("inverse scale",
           [bad](auto& p) { params(p, schema::OpCode_quantize).inverse_scale = bad; });
    refuse("dequantize scale",
           [bad](auto& p) { params(p, schema::OpCode_dequantize).scale = bad; });
  }
  refuse("lengths", [](auto& p) { p.tensors[1].zero_point = {0, 0}; });
  refuse("zero point", [](auto& p) { p.tensors[1].zero_point = {128}; });
  refuse("range", [](auto& p) { p.tensors[1].quant_min = -129; });
  refuse("empty range", [](auto& p) { p.tensors[1].quant_min = 1, p.tensors[1].quant_max = 0; });
  refuse("axis", [](auto& p) {
    p.tensors[1].scale = {1, 1}, p.tensors[1].zero_point = {0, 0}, p.tensors[1].axis = 4;
  });
  refuse("no axis", [](auto& p) { p.tensors[1].scale = {1, 1}, p.tensors[1].zero_point = {0, 0}; });
  refuse("scales on the axis", [](auto& p) {
    p.tensors[1].scale = {1, 1, 1}, p.tensors[1].zero_point = {0, 0, 0}, p.tensors[1].axis = 3;
  });
  refuse("float with a scale",
         [](auto& p) { p.tensors[0].scale = {1}, p.tensors[0].zero_point = {0}; });
}

TEST(Loader, InputsOutputsAndConstants) {
  refuse("input index", [](auto& p) { p.inputs[0] = 1000; });
  refuse("input is no input", [](auto& p) { p.inputs[0] = 1; });
  refuse("input position", [](auto& p) { p.tensors[0].location = 1; });
  refuse("input twice", [](auto& p) { p.inputs.push_back(0); });
  refuse("output index", [](auto& p) { p.outputs[0] = 0xffffffff; });
  refuse("outputs swapped", [](auto& p) { std::swap(p.outputs[0], p.outputs[1]); });
  refuse("output missing", [](auto& p) { p.outputs.pop_back(); });
  refuse("constant index", [](auto& p) { input_of(p, schema::OpCode_conv2d, 1).location = 99; });
  refuse("constant short", [](auto& p) { p.constants[0].pop_back(); });
  refuse("constant long", [](auto& p) { p.constants[0].push_back(0); });
  refuse("constant empty", [](auto& p) { p.constants[0].clear(); });
}

TEST(Loader, OrderAndOverlap) {
  refuse("no operators", [](auto& p) { p.ops.clear(); });
  refuse("cycle", [](auto& p) { std::swap(p.ops[0], p.ops[1]); });
  refuse("read of itself", [](auto& p) { p.ops[1].inputs[0] = p.ops[1].outputs[0]; });
  refuse("operand index", [](auto& p) { p.ops[1].inputs[0] = 1000; });
  refuse("operand -2", [](auto& p) { p.ops[1].inputs[0] = -2; });
  refuse("output -1", [](auto& p) { p.ops[1].outputs[0] = -1; });
  refuse("required operand absent", [](auto& p) { p.ops[1].inputs[0] = -1; });
  refuse("writes an input", [](auto& p) { p.ops[1].outputs[0] = 0; });
  refuse("writes a constant", [](auto& p) { p.ops[1].outputs[0] = p.ops[1].inputs[1]; });
  refuse("written twice", [](auto& p) { p.ops[2].outputs[0] = p.ops[0].outputs[0]; });
  refuse("output never written", [](auto& p) { p.ops.pop_back(); });
  refuse("output over input", [](auto& p) {
    output_of(p, schema::OpCode_conv2d).location = output_of(p, schema::OpCode_quantize).location;
  });
  refuse("output ends in an input", [](auto& p) {
    output_of(p, schema::OpCode_conv2d).location =
        output_of(p, schema::OpCode_quantize).location + 16;
  });
}

TEST(Loader, Views) {
  const auto view = [](ProgramSpec& p) -> TensorSpec& {
    return *std::find_if(p.tensors.begin(), p.tensors.end(),
                         [](const TensorSpec& t) { return t.alias >= 0; });
  };
  refuse("of itself",
         [&](auto& p) { view(p).alias = static_cast<int32_t>(&view(p) - p.tensors.data()); });
  refuse("out of range", [&](auto& p) { view(p).alias = 1000; });
  refuse("negative", [&](auto& p) { view(p).alias = -2; });
  refuse("of a constant", [&](auto& p) { view(p).alias = 2; });
  refuse("elsewhere", [&](auto& p) { view(p).location -= 16; });
  refuse("other size", [&](auto& p) { view(p).shape = {4, 7}; });
  refuse("other dtype", [&](auto& p) { view(p).dtype = schema::DType_u8, view(p).quant_min = 0; });
  refuse("written", [&](auto& p) {
    find_op(p, schema::OpCode_adaptive_avg_pool2d).outputs[0] =
        static_cast<int32_t>(&view(p) - p.tensors.data());
  });
}

TEST(Loader, OperatorsWithoutAKernel) {
  expect("opcode", Code::kOperatorMissing,
         [](auto& p) { p.ops[1].opcode = static_cast<schema::OpCode>(1000); });
  expect("dtype", Code::kOperatorMissing, [](auto& p) {
    output_of(p, schema::OpCode_conv2d).dtype = schema::DType_u8;
    output_of(p, schema::OpCode_conv2d).quant_min = 0;
  });
}

TEST(Loader, EveryOperatorNeedsItsParams) {
  for (size_t i = 0; i < every_kind().ops.size(); ++i) {
    refuse("none", [i](auto& p) { p.ops[i].params.family = schema::Params_NONE; });
    refuse("another family", [i](auto& p) {
      schema::Params& family = p.ops[i].params.family;
      family = family == schema::Params_CastParams ? schema::Params_LayoutParams
                                                   : schema::Params_CastParams;
    });
    refuse("an input too many", [i](auto& p) { p.ops[i].inputs.resize(4, -1); });
    refuse("no input", [i](auto& p) { p.ops[i].inputs.clear(); });
    refuse("no output", [i](auto& p) { p.ops[i].outputs.clear(); });
  }
}

TEST(Loader, ClampAndZeroPointsOfEveryOperator) {
  using schema::Params;
  for (size_t i = 0; i < every_kind().ops.size(); ++i) {
    const Params family = every_kind().ops[i].params.family;
    if (family == schema::Params_LayoutParams) continue;
    const bool to_float = every_kind().ops[i].opcode == schema::OpCode_dequantize;
    if (!to_float) {
      refuse("clamp_min", [i](auto& p) { p.ops[i].params.clamp_min = -129; });
      refuse("clamp_max", [i](auto& p) { p.ops[i].params.clamp_max = 128; });
      refuse("clamp",
             [i](auto& p) { p.ops[i].params.clamp_min = 1, p.ops[i].params.clamp_max = 0; });
    }
    refuse("input zero point", [i](auto& p) { p.ops[i].params.input_zero_points[0] = 128; });
    refuse("input zero point", [i](auto& p) { p.ops[i].params.input_zero_points[0] = INT32_MIN; });
    if (family != schema::Params_CastParams) {
      refuse("output zero point", [i](auto& p) { p.ops[i].params.output_zero_point = -129; });
    }
  }
}

TEST(Loader, MultipliersOfEveryOperator) {
  for (size_t i = 0; i < every_kind().ops.size(); ++i) {
    if (every_kind().ops[i].params.multiplier.empty()) continue;
    refuse("negative", [i](auto& p) { p.ops[i].params.multiplier.back() = -1; });
    for (const uint8_t shift : std::vector<uint8_t>{0, 1, 63, 200, 255}) {
      refuse("shift", [i, shift](auto& p) { p.ops[i].params.shift.back() = shift; });
    }
    if (every_kind().ops[i].params.family == schema::Params_ReduceParams) continue;
    refuse("one too many", [i](auto& p) { p.ops[i].params.multiplier.push_back(0); });
    refuse("a shift too few", [i](auto& p) { p.ops[i].params.shift.pop_back(); });
  }
  refuse("output shift", [](auto& p) { params(p, schema::OpCode_add).output_shift = 63; });
  refuse("output multiplier",
         [](auto& p) { params(p, schema::OpCode_add).output_multiplier = -5; });
  refuse("sum beyond int32", [](auto& p) { params(p, schema::OpCode_add).shift = {2, 2}; });
}

TEST(Loader, Convolutions) {
  using P = ParamsSpec;
  for (const auto opcode : {schema::OpCode_conv2d, schema::OpCode_depthwise_conv2d}) {
    const auto bad = [opcode](const char* what, const std::function<void(P&)>& change) {
      refuse(what, [&](auto& p) { change(params(p, opcode)); });
    };
    bad("stride 0", [](P& d) { d.stride_h = 0; });
    bad("dilation 0", [](P& d) { d.dilation_w = 0; });
    bad("kernel 0", [](P& d) { d.kernel_h = 0; });
    bad("kernel of the weight", [](P& d) { d.kernel_w = 1, d.pad_right = 0; });
    bad("groups 0", [](P& d) { d.groups = 0; });
    bad("groups", [](P& d) { d.groups = 3; });
    bad("padding", [](P& d) { d.pad_top = 0xffffffff; });
    bad("output size", [](P& d) { d.pad_bottom += 1; });
    bad("output size", [](P& d) { d.stride_w = 2; });
    bad("dilation", [](P& d) { d.dilation_h = 0x80000000u; });
    refuse("batch", [opcode](auto& p) { output_of(p, opcode).shape[0] = 2; });
    refuse("rank", [opcode](auto& p) { output_of(p, opcode).shape.push_back(1); });
  }
  refuse("weight depth", [](auto& p) {
    input_of(p, schema::OpCode_conv2d, 1).shape = {8, 3, 3, 1};
  });
  refuse("bias length", [](auto& p) {
    input_of(p, schema::OpCode_conv2d, 2).shape = {3};
    p.constants[1].resize(12);
  });
  refuse("bias dtype", [](auto& p) { find_op(p, schema::OpCode_conv2d).inputs[2] = 2; });
  refuse("weight columns", [](auto& p) { input_of(p, schema::OpCode_linear, 1).shape = {8, 3}; });
  refuse("weight rank", [](auto& p) { input_of(p, schema::OpCode_linear, 1).shape = {3, 8, 1}; });
}

TEST(Loader, Pools) {
  for (const auto opcode : {schema::OpCode_max_pool2d, schema::OpCode_avg_pool2d}) {
    refuse("kernel 0", [opcode](auto& p) { params(p, opcode).kernel_h = 0; });
    refuse("stride 0", [opcode](auto& p) { params(p, opcode).stride_w = 0; });
    refuse("dilation 0", [opcode](auto& p) { params(p, opcode).dilation_w = 0; });
    refuse("padding", [opcode](auto& p) { params(p, opcode).pad_left = 0x7fffffff; });
    refuse("output size", [opcode](auto& p) { params(p, opcode).kernel_h += 2; });
  }
  refuse("all padding", [](auto& p) {
    ParamsSpec& v = params(p, schema::OpCode_max_pool2d);
    v.pad_top = 2, v.stride_h = 3;
  });
  refuse("dilation misses the input", [](auto& p) {
    ParamsSpec& v = params(p, schema::OpCode_max_pool2d);
    v.pad_top = 1, v.kernel_h = 2, v.dilation_h = 6, v.stride_h = 1, v.pad_bottom = 3;
  });
  refuse("max without multiplier",
         [](auto& p) { params(p, schema::OpCode_max_pool2d).output_zero_point = 1; });
  refuse("average with dilation", [](auto& p) {
    ParamsSpec& v = params(p, schema::OpCode_avg_pool2d);
    v.kernel_h = 2, v.dilation_h = 2;
  });
  for (size_t missing = 0; missing < 3; ++missing) {
    refuse("divisor without multiplier",
           [missing](auto& p) { params(p, schema::OpCode_avg_pool2d).count[missing] = 100; });
  }
  refuse("override without multiplier",
         [](auto& p) { params(p, schema::OpCode_avg_pool2d).divisor_override = 5; });
  expect("override", Code::kOk,
         [](auto& p) { params(p, schema::OpCode_avg_pool2d).divisor_override = 6; });
  refuse("included padding changes divisors", [](auto& p) {
    params(p, schema::OpCode_avg_pool2d).count = {4, 6, 8};
  });
  expect("included padding", Code::kOk, [](auto& p) {
    ParamsSpec& v = params(p, schema::OpCode_avg_pool2d);
    v.count_include_pad = true, v.count = {9}, v.multiplier = {5}, v.shift = {40};
  });
  refuse("adaptive divisor", [](auto& p) {
    ParamsSpec& v = params(p, schema::OpCode_adaptive_avg_pool2d);
    v.count = {2}, v.multiplier = {1}, v.shift = {40};  // windows of 2 x 2
  });
}

TEST(Loader, LayoutsAndReductions) {
  refuse("perm length", [](auto& p) { params(p, schema::OpCode_permute).perm = {1}; });
  refuse("perm twice", [](auto& p) { params(p, schema::OpCode_permute).perm = {1, 1}; });
  refuse("perm range", [](auto& p) { params(p, schema::OpCode_permute).perm = {1, 255}; });
  refuse("perm sizes", [](auto& p) { params(p, schema::OpCode_permute).perm = {0, 1}; });
  refuse("copy with perm", [](auto& p) { params(p, schema::OpCode_copy).perm = {0, 1, 2}; });
  refuse("copy size", [](auto& p) { output_of(p, schema::OpCode_copy).shape[0] = 4; });
  refuse("copy dtype", [](auto& p) {
    output_of(p, schema::OpCode_copy).dtype = schema::DType_f32,
                 output_of(p, schema::OpCode_copy).scale.clear(),
                 output_of(p, schema::OpCode_copy).zero_point.clear();
  });
  refuse("quantize perm", [](auto& p) { params(p, schema::OpCode_quantize).perm = {0, 1, 2, 3}; });
  refuse("axis range", [](auto& p) { params(p, schema::OpCode_mean).axes = {2}; });
  refuse("axis twice", [](auto& p) { params(p, schema::OpCode_mean).axes = {0, 0}; });
  refuse("axes order", [](auto& p) { params(p, schema::OpCode_mean).axes = {1, 0}; });
  refuse("other axis", [](auto& p) { params(p, schema::OpCode_mean).axes = {1}; });
  refuse("add shapes", [](auto& p) { output_of(p, schema::OpCode_add).shape = {1, 5, 4, 8}; });
  refuse("requantize size", [](auto& p) {
    output_of(p, schema::OpCode_requantize).shape = {1, 5, 4, 8};
  });
  expect("mean keeps sizes of one", Code::kOk, [](auto& p) {
    output_of(p, schema::OpCode_mean).shape = {1, 4, 1};
  });
}

}  // namespace
}  // namespace fused_quant::testing
