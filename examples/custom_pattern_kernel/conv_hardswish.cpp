// SPDX-License-Identifier: BSD-3-Clause
//
// my_ops::conv_hardswish.out: the integer model of examples/custom_pattern.py, bit for bit.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;

// Places of the arguments: operands, then a block of five for each, the block in between, the
// result's block, the attributes, the result.
enum Argument : size_t {
  kInp = 0,
  kWeight = 1,
  kBias = 2,
  kInpBlock = 3,
  kWeightBlock = 8,
  kMidBlock = 18,
  kOutBlock = 23,
  kStride = 28,
  kPadding = 29,
  kOut = 30,
};

struct Block {
  double scale;
  int64_t zero_point;
  int64_t low;
  int64_t high;
};

// A block of one scale: scale, zero point, dtype, quant_min, quant_max.
Block read_block(Span<EValue*> args, size_t first) {
  const Tensor scale = args[first]->toTensor();
  const Tensor zero_point = args[first + 1]->toTensor();
  return {scale.const_data_ptr<float>()[0], zero_point.const_data_ptr<int64_t>()[0],
          args[first + 3]->toInt(), args[first + 4]->toInt()};
}

struct Multiplier {
  int64_t factor;
  int shift;

  explicit Multiplier(double ratio) {
    int exponent = 0;
    factor = static_cast<int64_t>(std::nearbyint(std::ldexp(std::frexp(ratio, &exponent), 31)));
    shift = 31 - exponent;
  }

  int64_t operator()(int64_t value) const {
    return (value * factor + (int64_t{1} << (shift - 1))) >> shift;
  }
};

int64_t clamp(int64_t value, const Block& block) {
  return std::min(block.high, std::max(block.low, value + block.zero_point));
}

bool is_int8_image(const Tensor& tensor) {
  if (tensor.scalar_type() != ScalarType::Char || tensor.dim() != 4) return false;
  for (ssize_t i = 0; i < 4; ++i) {
    if (tensor.dim_order()[i] != i) return false;
  }
  return true;
}

void conv_hardswish_out(KernelRuntimeContext& context, Span<EValue*> args) {
  if (args.size() <= kOut) {
    context.fail(Error::InvalidArgument);
    return;
  }
  const Tensor x = args[kInp]->toTensor();
  const Tensor weight = args[kWeight]->toTensor();
  Tensor out = args[kOut]->toTensor();
  if (!is_int8_image(x) || !is_int8_image(weight) || !is_int8_image(out)) {
    context.fail(Error::InvalidArgument);
    return;
  }
  const int32_t* bias =
      args[kBias]->isNone() ? nullptr : args[kBias]->toTensor().const_data_ptr<int32_t>();
  const Tensor weight_scale = args[kWeightBlock]->toTensor();
  const Block in = read_block(args, kInpBlock);
  const Block mid = read_block(args, kMidBlock);
  const Block result = read_block(args, kOutBlock);
  const auto stride = args[kStride]->toIntList();
  const auto padding = args[kPadding]->toIntList();

  const int64_t three = std::llrint(3.0 / mid.scale);
  const int64_t six = std::llrint(6.0 / mid.scale);
  const Multiplier finish(mid.scale * mid.scale / (6.0 * result.scale));
  const int64_t in_c = x.size(1), in_h = x.size(2), in_w = x.size(3);
  const int64_t kernel_h = weight.size(2), kernel_w = weight.size(3);
  const int8_t* codes = x.const_data_ptr<int8_t>();
  const int8_t* taps = weight.const_data_ptr<int8_t>();
  const float* scales = weight_scale.const_data_ptr<float>();
  int8_t* results = out.mutable_data_ptr<int8_t>();

  for (int64_t n = 0; n < out.size(0); ++n) {
    for (int64_t o = 0; o < out.size(1); ++o) {
      const double scale = weight_scale.numel() == 1 ? scales[0] : scales[o];
      const Multiplier to_mid(in.scale * scale / mid.scale);
      for (int64_t h = 0; h < out.size(2); ++h) {
        for (int64_t w = 0; w < out.size(3); ++w) {
          int64_t acc = bias == nullptr ? 0 : bias[o];
          for (int64_t c = 0; c < in_c; ++c) {
            for (int64_t i = 0; i < kernel_h; ++i) {
              for (int64_t j = 0; j < kernel_w; ++j) {
                const int64_t y = h * stride[0] - padding[0] + i;
                const int64_t z = w * stride[1] - padding[1] + j;
                if (y < 0 || y >= in_h || z < 0 || z >= in_w) continue;
                const int64_t code = codes[((n * in_c + c) * in_h + y) * in_w + z];
                const int64_t tap = taps[((o * in_c + c) * kernel_h + i) * kernel_w + j];
                acc += (code - in.zero_point) * tap;
              }
            }
          }
          // The intermediate saturates to its own codes before hardswish reads it.
          const int64_t value = clamp(to_mid(acc), mid) - mid.zero_point;
          const int64_t gate = std::min(six, std::max(int64_t{0}, value + three));
          *results++ = static_cast<int8_t>(clamp(finish(value * gate), result));
        }
      }
    }
  }
}

const Error registered = executorch::runtime::register_kernel(
    executorch::runtime::Kernel("my_ops::conv_hardswish.out", conv_hardswish_out));

}  // namespace

// Whether ExecuTorch took the kernel: 0, or the code of its error.
extern "C" __attribute__((visibility("default"))) uint32_t custom_pattern_registered() {
  return static_cast<uint32_t>(registered);
}
