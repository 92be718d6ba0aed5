// SPDX-License-Identifier: BSD-3-Clause

#include "program_builder.h"

#include <cstdlib>
#include <cstring>

namespace fused_quant::testing {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

int32_t first(const std::vector<int32_t>& values) { return values.empty() ? 0 : values[0]; }

Offset<void> write_params(FlatBufferBuilder& b, const ParamsSpec& p) {
  const int32_t multiplier = first(p.multiplier);
  const uint8_t shift = p.shift.empty() ? uint8_t{0} : p.shift[0];
  switch (p.family) {
    case schema::Params_DotParams:
      return schema::CreateDotParamsDirect(b, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w,
                                           p.dilation_h, p.dilation_w, p.pad_top, p.pad_left,
                                           p.pad_bottom, p.pad_right, p.groups,
                                           first(p.input_zero_points), p.output_zero_point,
                                           &p.multiplier, &p.shift, p.clamp_min, p.clamp_max)
          .Union();
    case schema::Params_WindowParams:
      return schema::CreateWindowParamsDirect(
                 b, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.dilation_h, p.dilation_w,
                 p.pad_top, p.pad_left, p.pad_bottom, p.pad_right, p.count_include_pad,
                 p.divisor_override, first(p.input_zero_points), p.output_zero_point, &p.count,
                 &p.multiplier, &p.shift, p.clamp_min, p.clamp_max)
          .Union();
    case schema::Params_ElementwiseParams:
      return schema::CreateElementwiseParamsDirect(b, &p.input_zero_points, &p.multiplier, &p.shift,
                                                   &p.negate, p.output_multiplier, p.output_shift,
                                                   p.output_zero_point, p.clamp_min, p.clamp_max)
          .Union();
    case schema::Params_CastParams:
      return schema::CreateCastParamsDirect(b, p.scale, p.inverse_scale, first(p.input_zero_points),
                                            p.clamp_min, p.clamp_max, &p.perm)
          .Union();
    case schema::Params_ReduceParams:
      return schema::CreateReduceParamsDirect(b, &p.axes, first(p.input_zero_points),
                                              p.output_zero_point, multiplier, shift, p.clamp_min,
                                              p.clamp_max)
          .Union();
    case schema::Params_LayoutParams:
      return schema::CreateLayoutParamsDirect(b, &p.perm).Union();
    default:  // The Python tests write the other families.
      return {};
  }
}

Offset<schema::Tensor> write_tensor(FlatBufferBuilder& b, const TensorSpec& t, size_t index) {
  const std::string name = "t" + std::to_string(index);
  return schema::CreateTensorDirect(b, name.c_str(), t.dtype, t.storage, t.location, &t.shape,
                                    &t.dim_order, &t.scale, &t.zero_point, t.axis, t.quant_min,
                                    t.quant_max, t.alias);
}

Offset<schema::Constant> write_constant(FlatBufferBuilder& b, const ProgramSpec& p, size_t index) {
  const auto found = p.shared.find(index);
  if (found == p.shared.end()) return schema::CreateConstantDirect(b, &p.constants[index]);
  const SharedSpec& shared = found->second;
  return schema::CreateConstantDirect(b, shared.keeps_data ? &p.constants[index] : nullptr,
                                      shared.has_key ? shared.key.c_str() : nullptr, shared.size);
}

}  // namespace

Block::Block(size_t size, uint8_t fill, size_t lead) : lead_(lead), size_(size) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 16, size + lead) != 0) abort();
  memory_.reset(static_cast<uint8_t*>(memory));
  std::memset(memory, fill, size + lead);
}

void Block::Free::operator()(uint8_t* memory) const { free(memory); }

Block ProgramSpec::write() const {
  FlatBufferBuilder b;
  std::vector<Offset<schema::Constant>> constant_offsets;
  for (size_t i = 0; i < constants.size(); ++i) {
    constant_offsets.push_back(write_constant(b, *this, i));
  }
  std::vector<Offset<schema::Tensor>> tensor_offsets;
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensor_offsets.push_back(write_tensor(b, tensors[i], i));
  }
  std::vector<Offset<schema::Op>> op_offsets;
  for (const OpSpec& op : ops) {
    const Offset<void> params = write_params(b, op.params);
    op_offsets.push_back(schema::CreateOpDirect(b, op.name.c_str(), op.opcode, &op.inputs,
                                                &op.outputs, op.params.family, params));
  }
  b.Finish(schema::CreatePayloadDirect(b, format_version, "test", "test", &tensor_offsets, &inputs,
                                       &outputs, &op_offsets, &constant_offsets, arena_bytes, 0),
           identifier.c_str());
  Block block(b.GetSize());
  std::memcpy(block.data(), b.GetBufferPointer(), b.GetSize());
  return block;
}

namespace {

// Adds tensors and operators to a program, placing arena tensors one behind the other.
class Maker {
 public:
  ProgramSpec program;

  int32_t tensor(std::vector<uint32_t> shape, schema::Storage storage, uint32_t location,
                 schema::DType dtype = schema::DType_s8) {
    TensorSpec t;
    t.dtype = dtype;
    t.storage = storage;
    t.location = location;
    t.shape = std::move(shape);
    if (dtype == schema::DType_f32) t.scale.clear(), t.zero_point.clear();
    if (dtype == schema::DType_s32) t.quant_min = INT32_MIN, t.quant_max = INT32_MAX;
    program.tensors.push_back(std::move(t));
    return static_cast<int32_t>(program.tensors.size() - 1);
  }

  int32_t arena(std::vector<uint32_t> shape) {
    uint32_t bytes = 1;
    for (uint32_t size : shape) bytes *= size;
    const int32_t index = tensor(std::move(shape), schema::Storage_arena, program.arena_bytes);
    program.arena_bytes += (bytes + 15) / 16 * 16;
    return index;
  }

  int32_t constant(std::vector<uint32_t> shape, uint32_t bytes,
                   schema::DType dtype = schema::DType_s8) {
    std::vector<uint8_t> content(bytes);
    for (uint32_t i = 0; i < bytes; ++i) content[i] = static_cast<uint8_t>(37 * i + 11);
    program.constants.push_back(std::move(content));
    return tensor(std::move(shape), schema::Storage_constant,
                  static_cast<uint32_t>(program.constants.size() - 1), dtype);
  }

  // Another shape of the arena tensor `owner`.
  int32_t view(std::vector<uint32_t> shape, int32_t owner) {
    const uint32_t location = program.tensors[static_cast<size_t>(owner)].location;
    const int32_t index = tensor(std::move(shape), schema::Storage_arena, location);
    program.tensors.back().alias = owner;
    return index;
  }

  // The returned params are to be filled before the next call.
  ParamsSpec& op(schema::OpCode opcode, schema::Params family, std::vector<int32_t> inputs,
                 int32_t output) {
    OpSpec o;
    o.name = std::string("node_") + schema::EnumNameOpCode(opcode);
    o.opcode = opcode;
    o.inputs = std::move(inputs);
    o.outputs = {output};
    o.params.family = family;
    program.ops.push_back(std::move(o));
    return program.ops.back().params;
  }
};

// quantize, conv2d, depthwise_conv2d; returns s8 [1, 5, 5, 8].
int32_t add_convolutions(Maker& m, int32_t x) {
  const int32_t q = m.arena({1, 6, 6, 2});
  m.op(schema::OpCode_quantize, schema::Params_CastParams, {x}, q).perm = {0, 2, 3, 1};

  const int32_t weight = m.constant({4, 3, 3, 2}, 72);
  const int32_t bias = m.constant({4}, 16, schema::DType_s32);
  const int32_t conv = m.arena({1, 6, 6, 4});
  ParamsSpec& c = m.op(schema::OpCode_conv2d, schema::Params_DotParams, {q, weight, bias}, conv);
  c.kernel_h = c.kernel_w = 3;
  c.pad_top = c.pad_left = c.pad_bottom = c.pad_right = 1;
  c.input_zero_points = {5};
  c.multiplier = {1 << 30, 1 << 30, 1100000000, 2147483647};
  c.shift = {36, 37, 38, 39};

  const int32_t per_tap = m.constant({2, 2, 8}, 32);
  const int32_t deep = m.arena({1, 5, 5, 8});
  ParamsSpec& d =
      m.op(schema::OpCode_depthwise_conv2d, schema::Params_DotParams, {conv, per_tap, -1}, deep);
  d.kernel_h = d.kernel_w = 2;
  d.groups = 4;
  d.multiplier = {1 << 30};
  d.shift = {35};
  return deep;
}

// requantize, add; returns s8 [1, 5, 5, 8].
int32_t add_elementwise(Maker& m, int32_t x) {
  const int32_t other = m.arena({1, 5, 5, 8});
  ParamsSpec& r = m.op(schema::OpCode_requantize, schema::Params_ElementwiseParams, {x}, other);
  r.multiplier = {1 << 30};
  r.shift = {30};
  r.negate = {0};

  const int32_t sum = m.arena({1, 5, 5, 8});
  ParamsSpec& a = m.op(schema::OpCode_add, schema::Params_ElementwiseParams, {x, other}, sum);
  a.input_zero_points = {3, -4};
  a.multiplier = {1 << 30, 1 << 30};
  a.shift = {12, 13};
  a.negate = {0, 1};
  a.output_shift = 50;
  return sum;
}

// The three pools; returns s8 [1, 2, 2, 8].
int32_t add_pools(Maker& m, int32_t x) {
  const int32_t peak = m.arena({1, 3, 3, 8});
  ParamsSpec& p = m.op(schema::OpCode_max_pool2d, schema::Params_WindowParams, {x}, peak);
  p.kernel_h = p.kernel_w = p.stride_h = p.stride_w = 2;  // output size rounded up

  const int32_t average = m.arena({1, 3, 3, 8});
  ParamsSpec& a = m.op(schema::OpCode_avg_pool2d, schema::Params_WindowParams, {peak}, average);
  a.kernel_h = a.kernel_w = 3;
  a.pad_top = a.pad_left = a.pad_bottom = a.pad_right = 1;
  a.count = {4, 6, 9};
  a.multiplier = {1 << 30, 1500000000, 1 << 30};
  a.shift = {32, 33, 33};

  const int32_t adaptive = m.arena({1, 2, 2, 8});
  m.op(schema::OpCode_adaptive_avg_pool2d, schema::Params_WindowParams, {average}, adaptive);
  return adaptive;
}

}  // namespace

ProgramSpec every_kind() {
  Maker m;
  const int32_t x = m.tensor({1, 2, 6, 6}, schema::Storage_input, 0, schema::DType_f32);
  const int32_t pooled = add_pools(m, add_elementwise(m, add_convolutions(m, x)));

  const int32_t rows = m.view({4, 8}, pooled);
  const int32_t weight = m.constant({3, 8}, 24);
  const int32_t logits = m.arena({4, 3});
  ParamsSpec& l = m.op(schema::OpCode_linear, schema::Params_DotParams, {rows, weight}, logits);
  l.multiplier = {1 << 30};
  l.shift = {35};

  const int32_t turned = m.arena({3, 4});
  m.op(schema::OpCode_permute, schema::Params_LayoutParams, {logits}, turned).perm = {1, 0};
  const int32_t reduced = m.arena({4});
  ParamsSpec& r = m.op(schema::OpCode_mean, schema::Params_ReduceParams, {turned}, reduced);
  r.axes = {0};
  r.multiplier = {1431655765};
  r.shift = {32};

  const int32_t real = m.tensor({4}, schema::Storage_output, 0, schema::DType_f32);
  m.op(schema::OpCode_dequantize, schema::Params_CastParams, {reduced}, real);
  const int32_t codes = m.tensor({3, 2, 2}, schema::Storage_output, 1);
  m.op(schema::OpCode_copy, schema::Params_LayoutParams, {turned}, codes);
  m.program.inputs = {static_cast<uint32_t>(x)};
  m.program.outputs = {static_cast<uint32_t>(real), static_cast<uint32_t>(codes)};
  return m.program;
}

ProgramSpec only(schema::OpCode opcode) {
  const ProgramSpec all = every_kind();
  ProgramSpec alone;
  const auto take = [&](int32_t index, schema::Storage storage) {
    TensorSpec t = all.tensors[static_cast<size_t>(index)];
    const uint32_t at = static_cast<uint32_t>(alone.tensors.size());
    t.alias = -1;
    if (t.storage == schema::Storage_constant) {
      alone.constants.push_back(all.constants[t.location]);
      t.location = static_cast<uint32_t>(alone.constants.size() - 1);
    } else {
      std::vector<uint32_t>& ends = storage == schema::Storage_input ? alone.inputs : alone.outputs;
      t.storage = storage;
      t.location = static_cast<uint32_t>(ends.size());
      ends.push_back(at);
    }
    alone.tensors.push_back(std::move(t));
    return static_cast<int32_t>(at);
  };
  for (const OpSpec& op : all.ops) {
    if (op.opcode != opcode) continue;
    OpSpec copy = op;
    for (int32_t& index : copy.inputs) {
      if (index >= 0) index = take(index, schema::Storage_input);
    }
    for (int32_t& index : copy.outputs) index = take(index, schema::Storage_output);
    alone.ops.push_back(std::move(copy));
  }
  return alone;
}

}  // namespace fused_quant::testing
