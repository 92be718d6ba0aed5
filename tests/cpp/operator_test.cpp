// SPDX-License-Identifier: BSD-3-Clause
//
// What the operators' prepare functions refuse.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "refusal.h"

namespace fused_quant::testing {
namespace {

constexpr schema::OpCode kConv = schema::OpCode_conv2d;
constexpr schema::OpCode kDepthwise = schema::OpCode_depthwise_conv2d;
constexpr schema::OpCode kLinear = schema::OpCode_linear;
constexpr schema::OpCode kAdd = schema::OpCode_add;
constexpr schema::OpCode kRequantize = schema::OpCode_requantize;
constexpr schema::OpCode kMax = schema::OpCode_max_pool2d;
constexpr schema::OpCode kAverage = schema::OpCode_avg_pool2d;
constexpr schema::OpCode kAdaptive = schema::OpCode_adaptive_avg_pool2d;
constexpr schema::OpCode kMean = schema::OpCode_mean;
constexpr schema::OpCode kPermute = schema::OpCode_permute;
constexpr schema::OpCode kCopy = schema::OpCode_copy;
constexpr schema::OpCode kQuantize = schema::OpCode_quantize;
constexpr schema::OpCode kDequantize = schema::OpCode_dequantize;

constexpr schema::OpCode kAll[] = {kConv, kDepthwise, kLinear,    kAdd,  kRequantize,
                                   kMax,  kAverage,   kAdaptive,  kMean, kPermute,
                                   kCopy, kQuantize,  kDequantize};

// The operator alone, with `change`, ends in `what`.
void refuse(schema::OpCode opcode, const char* what, const Change& change) {
  ProgramSpec program = only(opcode);
  change(program);
  expect(program, Code::kInvalidProgram, what);
}

void refuse_params(schema::OpCode opcode, const char* what,
                   const std::function<void(ParamsSpec&)>& change) {
  refuse(opcode, what, [&](ProgramSpec& p) { change(p.ops[0].params); });
}

void accept(schema::OpCode opcode, const Change& change) {
  ProgramSpec program = only(opcode);
  change(program);
  expect(program, Code::kOk, "");
}

void resize_constant(ProgramSpec& p, TensorSpec& tensor, std::vector<uint32_t> shape) {
  uint32_t bytes = tensor.dtype == schema::DType_s32 ? 4 : 1;
  for (const uint32_t size : shape) bytes *= size;
  p.constants[tensor.location].resize(bytes);
  tensor.shape = std::move(shape);
}

TEST(Operator, AcceptsEachAlone) {
  for (const auto opcode : kAll) accept(opcode, [](auto&) {});
}

TEST(Operator, NeedsItsParams) {
  for (const auto opcode : kAll) {
    const OpSpec op = only(opcode).ops[0];
    const std::string what = std::string(schema::EnumNameOpCode(op.opcode)) + " without " +
                             schema::EnumNameParams(op.params.family);
    const auto with = [](schema::Params family) {
      return [family](ProgramSpec& p) { p.ops[0].params.family = family; };
    };
    refuse(opcode, what.c_str(), with(schema::Params_NONE));
    refuse(opcode, what.c_str(),
           with(op.params.family == schema::Params_CastParams ? schema::Params_LayoutParams
                                                              : schema::Params_CastParams));
  }
}

TEST(Operator, NeedsItsOperands) {
  for (const auto opcode : kAll) {
    refuse(opcode, "number of inputs", [](auto& p) { p.ops[0].inputs.resize(4, -1); });
    refuse(opcode, opcode == kDequantize ? "required input is absent" : "number of inputs",
           [](auto& p) { p.ops[0].inputs.clear(); });
    refuse(opcode, "required input is absent", [](auto& p) { p.ops[0].inputs[0] = -1; });
    refuse(opcode, "number of outputs", [](auto& p) {
      TensorSpec second = tensor_at(p, p.ops[0].outputs[0]);
      second.location = 1;
      p.outputs.push_back(static_cast<uint32_t>(p.tensors.size()));
      p.ops[0].outputs.push_back(static_cast<int32_t>(p.tensors.size()));
      p.tensors.push_back(second);
    });
    refuse(opcode, "operator has no output", [](auto& p) {
      p.tensors.pop_back();
      p.outputs.clear();
      p.ops[0].outputs.clear();
    });
  }
}

TEST(Operator, ClampAndZeroPoints) {
  for (const auto opcode : kAll) {
    const schema::Params family = only(opcode).ops[0].params.family;
    if (family == schema::Params_LayoutParams) continue;
    for (const int32_t bad : {128, -129, INT32_MIN, INT32_MAX}) {
      for (size_t k = 0; k < (opcode == kAdd ? 2 : 1); ++k) {
        refuse_params(opcode, "zero point is no code",
                      [k, bad](auto& q) { q.input_zero_points[k] = bad; });
      }
      if (family == schema::Params_CastParams) continue;
      refuse_params(opcode, "zero point is no code", [bad](auto& q) { q.output_zero_point = bad; });
    }
    if (opcode == kDequantize) continue;
    refuse_params(opcode, "clamp_min is no code", [](auto& q) { q.clamp_min = -129; });
    refuse_params(opcode, "clamp_max is no code", [](auto& q) { q.clamp_max = 128; });
    refuse_params(opcode, "clamp_min above clamp_max",
                  [](auto& q) { q.clamp_min = 1, q.clamp_max = 0; });
  }
}

TEST(Operator, Multipliers) {
  for (const auto opcode : kAll) {
    const ParamsSpec given = only(opcode).ops[0].params;
    if (given.multiplier.empty()) continue;
    refuse_params(opcode, "multiplier is negative", [](auto& q) { q.multiplier.back() = -1; });
    for (const uint8_t shift : std::vector<uint8_t>{0, 1}) {
      refuse_params(opcode, "shift below 2", [shift](auto& q) { q.shift.back() = shift; });
    }
    for (const uint8_t shift : std::vector<uint8_t>{63, 200, 255}) {
      refuse_params(opcode, "shift above 62", [shift](auto& q) { q.shift.back() = shift; });
    }
    if (given.family == schema::Params_ReduceParams) continue;  // a single field
    refuse_params(opcode, "number of multipliers", [](auto& q) { q.multiplier.push_back(0); });
    refuse_params(opcode, "number of shifts", [](auto& q) { q.shift.pop_back(); });
    refuse_params(opcode, "number of shifts", [](auto& q) { q.shift.push_back(2); });
  }
}

TEST(Operator, Cast) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY, 0.0f, -0.5f, 1e-40f, 3e38f}) {
    const char* const what = "scale is not in [2^-126, 2^126]";
    refuse_params(kQuantize, what, [bad](auto& c) { c.inverse_scale = bad; });
    refuse_params(kDequantize, what, [bad](auto& c) { c.scale = bad; });
  }
  refuse_params(kQuantize, "output size", [](auto& c) { c.perm = {0, 1, 2, 3}; });
  refuse(kDequantize, "number of output elements",
         [](auto& p) { output_of(p, kDequantize).shape = {5}; });
  refuse(kQuantize, "input dtype", [](auto& p) {
    input_of(p, kQuantize, 0).dtype = schema::DType_s32;  // as wide as float
  });
}

TEST(Operator, Elementwise) {
  refuse_params(kAdd, "number of input zero points", [](auto& e) { e.input_zero_points = {0}; });
  refuse_params(kAdd, "number of signs", [](auto& e) { e.negate = {1}; });
  refuse_params(kAdd, "sum may exceed int32", [](auto& e) { e.shift = {2, 2}; });
  refuse_params(kAdd, "shift above 62", [](auto& e) { e.output_shift = 63; });
  refuse_params(kAdd, "multiplier is negative", [](auto& e) { e.output_multiplier = -5; });
  refuse(kAdd, "output size", [](auto& p) { output_of(p, kAdd).shape = {1, 5, 4, 8}; });
  refuse(kAdd, "shapes do not broadcast", [](auto& p) {
    input_of(p, kAdd, 1).shape = {1, 5, 4, 8};
  });
  accept(kAdd, [](auto& p) { input_of(p, kAdd, 1).shape = {5, 1, 8}; });
  refuse_params(kRequantize, "number of input zero points",
                [](auto& e) { e.input_zero_points.push_back(0); });
  refuse_params(kRequantize, "number of signs", [](auto& e) { e.negate = {0, 0}; });
  refuse(kRequantize, "number of output elements", [](auto& p) {
    output_of(p, kRequantize).shape = {1, 5, 4, 8};
  });
}

TEST(Operator, ConvolutionWindows) {
  for (const auto opcode : {kConv, kDepthwise}) {
    const auto bad = [opcode](const char* what, const std::function<void(ParamsSpec&)>& change) {
      refuse_params(opcode, what, change);
    };
    for (const uint32_t value : {0u, 65536u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      bad("stride out of range", [value](auto& d) { d.stride_h = value; });
      bad("stride out of range", [value](auto& d) { d.stride_w = value; });
      bad("dilation out of range", [value](auto& d) { d.dilation_h = value; });
      bad("dilation out of range", [value](auto& d) { d.dilation_w = value; });
      bad("kernel_h of the weight", [value](auto& d) { d.kernel_h = value; });
      bad("kernel_w of the weight", [value](auto& d) { d.kernel_w = value; });
      if (value == 0) continue;
      bad("padding out of range", [value](auto& d) { d.pad_top = value; });
      bad("padding out of range", [value](auto& d) { d.pad_left = value; });
      bad("padding out of range", [value](auto& d) { d.pad_bottom = value; });
      bad("padding out of range", [value](auto& d) { d.pad_right = value; });
    }
    bad("kernel larger than the padded input", [](auto& d) { d.dilation_h = 100; });
    bad("output size", [](auto& d) { d.pad_bottom += 1; });
    bad("output size", [](auto& d) { d.pad_left += 1; });
    bad("output size", [](auto& d) { d.stride_w = 2; });
    refuse(opcode, "output batch", [opcode](auto& p) { output_of(p, opcode).shape[0] = 2; });
    refuse(opcode, "output channels", [opcode](auto& p) { output_of(p, opcode).shape[3] -= 1; });
    refuse(opcode, "output rank", [opcode](auto& p) { output_of(p, opcode).shape.push_back(1); });
    refuse(opcode, "input rank", [opcode](auto& p) { input_of(p, opcode, 0).shape.push_back(1); });
    refuse(opcode, "weight rank", [opcode](auto& p) { input_of(p, opcode, 1).shape.push_back(1); });
  }
}

// Beyond int32 arithmetic, in tensors that claim the bytes but are never there.
TEST(Operator, LongWindows) {
  refuse(kMax, "axis too long", [](auto& p) {
    input_of(p, kMax, 0).shape = {1, 1, (1u << 30) + 1, 1};
    output_of(p, kMax).shape = {1, 1, 1u << 29, 1};
  });
  refuse(kMax, "window too long",
         [](auto& p) { p.ops[0].params.kernel_w = 32768, p.ops[0].params.dilation_w = 65535; });
  refuse(kAdaptive, "axis too long", [](auto& p) { input_of(p, kAdaptive, 0).shape[1] = 65536; });
  refuse(kAverage, "output too large for a table of divisors", [](auto& p) {
    ParamsSpec& v = p.ops[0].params;
    v.kernel_h = v.kernel_w = 1, v.pad_top = v.pad_bottom = v.pad_left = v.pad_right = 0;
    input_of(p, kAverage, 0).shape = {1, 65536, 1, 1};
    output_of(p, kAverage).shape = {1, 65536, 1, 1};
  });
  refuse(kAverage, "too many different divisors", [](auto& p) {
    ParamsSpec& v = p.ops[0].params;
    v.kernel_h = v.kernel_w = 600;
    v.pad_top = v.pad_bottom = v.pad_left = v.pad_right = 300;
    input_of(p, kAverage, 0).shape = {1, 600, 600, 1};
    output_of(p, kAverage).shape = {1, 601, 601, 1};
  });
}

TEST(Operator, Dots) {
  const char* const groups = "groups do not divide the channels";
  for (const uint32_t value : {0u, 3u, 4u, 0xffffffffu}) {
    refuse_params(kConv, groups, [value](auto& d) { d.groups = value; });
  }
  refuse_params(kConv, "weight depth", [](auto& d) { d.groups = 2; });
  refuse(kConv, "weight depth", [](auto& p) {
    resize_constant(p, input_of(p, kConv, 1), {4, 3, 3, 3});
  });
  refuse_params(kDepthwise, "groups of a depthwise convolution", [](auto& d) { d.groups = 1; });
  refuse(kDepthwise, "output channels are no multiple of the input's", [](auto& p) {
    resize_constant(p, input_of(p, kDepthwise, 1), {2, 2, 6});
    output_of(p, kDepthwise).shape[3] = 6;
  });
  refuse(kConv, "bias length", [](auto& p) { resize_constant(p, input_of(p, kConv, 2), {3}); });
  refuse(kConv, "bias dtype", [](auto& p) { p.ops[0].inputs[2] = p.ops[0].inputs[1]; });
  refuse(kConv, "weight dtype", [](auto& p) { p.ops[0].inputs[1] = p.ops[0].inputs[2]; });
  refuse(kLinear, "input elements are no multiple of the weight's columns", [](auto& p) {
    resize_constant(p, input_of(p, kLinear, 1), {3, 5});
  });
  refuse(kLinear, "number of output elements", [](auto& p) {
    output_of(p, kLinear).shape = {4, 2};
  });
  refuse(kLinear, "weight rank", [](auto& p) { input_of(p, kLinear, 1).shape = {3, 8, 1}; });
}

TEST(Operator, PoolWindows) {
  for (const auto opcode : {kMax, kAverage}) {
    const auto bad = [opcode](const char* what, const std::function<void(ParamsSpec&)>& change) {
      refuse_params(opcode, what, change);
    };
    for (const uint32_t value : {0u, 65536u, 0xffffffffu}) {
      bad("kernel size out of range", [value](auto& v) { v.kernel_h = value; });
      bad("kernel size out of range", [value](auto& v) { v.kernel_w = value; });
      bad("stride out of range", [value](auto& v) { v.stride_h = value; });
      bad("dilation out of range", [value](auto& v) { v.dilation_w = value; });
      if (value != 0) bad("padding out of range", [value](auto& v) { v.pad_left = value; });
    }
    bad("output size", [](auto& v) { v.kernel_h += 2; });
    refuse(opcode, "output batch", [opcode](auto& p) { output_of(p, opcode).shape[0] = 2; });
    refuse(opcode, "output channels", [opcode](auto& p) { output_of(p, opcode).shape[3] = 7; });
    refuse(opcode, "input rank", [opcode](auto& p) { input_of(p, opcode, 0).shape.push_back(1); });
    refuse(opcode, "output rank", [opcode](auto& p) { output_of(p, opcode).shape.push_back(1); });
  }
  // Input of 5 rows. The first window lies in the padding; a dilated one straddles the input; the
  // last one starts in the padding behind.
  refuse_params(kMax, "window without a valid element",
                [](auto& v) { v.pad_top = 2, v.stride_h = 3; });
  refuse_params(kMax, "window without a valid element",
                [](auto& v) { v.pad_top = 1, v.dilation_h = 6, v.stride_h = 1, v.pad_bottom = 3; });
  refuse_params(kMax, "last window starts beyond the input",
                [](auto& v) { v.kernel_h = 1, v.stride_h = 3, v.pad_bottom = 2; });
}

TEST(Operator, MaxPoolQuantization) {
  refuse_params(kMax, "zero points differ but there is no multiplier",
                [](auto& v) { v.output_zero_point = 1; });
  refuse_params(kMax, "number of multipliers", [](auto& v) {
    v.multiplier = {1, 1}, v.shift = {40, 40};
  });
  refuse_params(kMax, "number of shifts", [](auto& v) { v.multiplier = {1}; });
  accept(kMax, [](auto& p) {
    ParamsSpec& v = p.ops[0].params;
    v.output_zero_point = 1, v.multiplier = {1}, v.shift = {40};
  });
}

TEST(Operator, AveragePoolDivisors) {
  const char* const missing = "divisor has no multiplier";
  for (size_t i = 0; i < 3; ++i) {
    refuse_params(kAverage, missing, [i](auto& v) { v.count[i] = 100; });
  }
  refuse_params(kAverage, missing, [](auto& v) { v.divisor_override = 5; });
  refuse_params(kAverage, "divisor out of range",
                [](auto& v) { v.divisor_override = 0x80000000u; });
  accept(kAverage, [](auto& p) { p.ops[0].params.divisor_override = 6; });
  const auto include_pad = [](uint32_t count) {
    return [count](ParamsSpec& v) {
      v.count_include_pad = true, v.count = {count}, v.multiplier = {5}, v.shift = {40};
    };
  };
  refuse_params(kAverage, missing, include_pad(6));
  accept(kAverage, [&](auto& p) { include_pad(9)(p.ops[0].params); });
  refuse_params(kAverage, "too many divisors", [](auto& v) {
    v.count.assign(257, 4), v.multiplier.assign(257, 1), v.shift.assign(257, 40);
  });
  refuse_params(kAverage, "zero points differ but there are no multipliers", [](auto& v) {
    v.count.clear(), v.multiplier.clear(), v.shift.clear(), v.output_zero_point = 1;
  });
  refuse_params(kAverage, "avg_pool2d with dilation",
                [](auto& v) { v.kernel_h = 2, v.dilation_h = 2; });
  refuse_params(kAverage, "avg_pool2d with dilation",
                [](auto& v) { v.kernel_w = 2, v.dilation_w = 2; });
  const auto adaptive = [](uint32_t count) {
    return [count](ParamsSpec& v) { v.count = {count}, v.multiplier = {1}, v.shift = {40}; };
  };
  refuse_params(kAdaptive, missing, adaptive(2));  // windows of 2 x 2
  accept(kAdaptive, [&](auto& p) { adaptive(4)(p.ops[0].params); });
}

TEST(Operator, Layouts) {
  refuse_params(kPermute, "length of perm", [](auto& l) { l.perm = {1}; });
  refuse_params(kPermute, "length of perm", [](auto& l) { l.perm = {1, 0, 2}; });
  refuse_params(kPermute, "perm is no permutation", [](auto& l) { l.perm = {1, 255}; });
  refuse_params(kPermute, "output size", [](auto& l) { l.perm = {0, 1}; });
  refuse(kPermute, "perm is no permutation", [](auto& p) {
    p.ops[0].params.perm = {1, 1};
    output_of(p, kPermute).shape = {3, 3};  // the sizes would do
  });
  refuse(kPermute, "output rank", [](auto& p) { output_of(p, kPermute).shape = {12}; });
  refuse_params(kCopy, "copy with a perm", [](auto& l) { l.perm = {0, 1, 2}; });
  refuse(kCopy, "number of output elements", [](auto& p) { output_of(p, kCopy).shape[0] = 4; });
  refuse(kCopy, "output dtype", [](auto& p) {
    TensorSpec& y = output_of(p, kCopy);
    y.dtype = schema::DType_f32, y.scale.clear(), y.zero_point.clear();
  });
}

TEST(Operator, Mean) {
  refuse_params(kMean, "axis out of range", [](auto& r) { r.axes = {2}; });
  refuse_params(kMean, "axis out of range", [](auto& r) { r.axes = {0, 255}; });
  refuse_params(kMean, "axes are not ascending", [](auto& r) { r.axes = {0, 0}; });
  refuse_params(kMean, "axes are not ascending", [](auto& r) { r.axes = {1, 0}; });
  refuse_params(kMean, "output size", [](auto& r) { r.axes = {1}; });
  refuse(kMean, "output has too many sizes", [](auto& p) { output_of(p, kMean).shape = {4, 2}; });
  accept(kMean, [](auto& p) { output_of(p, kMean).shape = {1, 4, 1}; });
  // 8,421,505 differences of up to 255 do not fit int32; 8,421,504 do.
  const auto reduce = [](uint32_t terms) {
    return [terms](ProgramSpec& p) {
      input_of(p, kMean, 0).shape = {terms};
      output_of(p, kMean).shape = {};
      p.ops[0].params.input_zero_points = {127};
    };
  };
  accept(kMean, reduce(8421504));
  refuse(kMean, "sum of so many elements may exceed int32", reduce(8421505));
}

}  // namespace
}  // namespace fused_quant::testing
