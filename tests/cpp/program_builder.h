// SPDX-License-Identifier: BSD-3-Clause
//
// Payloads for tests, described as plain data that a test may spoil before it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "schema.h"

namespace fused_quant::testing {

// Memory of exactly `size` bytes, so that a sanitizer sees the first byte beyond, starting `lead`
// bytes after a 16-byte boundary.
class Block {
 public:
  explicit Block(size_t size, uint8_t fill = 0, size_t lead = 0);
  uint8_t* data() const { return memory_.get() + lead_; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  std::unique_ptr<uint8_t, Free> memory_;
  size_t lead_;
  size_t size_;
};

struct TensorSpec {
  schema::DType dtype = schema::DType_s8;
  schema::Storage storage = schema::Storage_arena;
  uint32_t location = 0;
  std::vector<uint32_t> shape;
  std::vector<float> scale = {0.5f};
  std::vector<int32_t> zero_point = {0};
  int8_t axis = -1;
  int32_t quant_min = -128;
  int32_t quant_max = 127;
  std::vector<uint8_t> dim_order = {};
  int32_t alias = -1;
};

// The fields of every params table, so that one struct serves; `family` picks the table.
struct ParamsSpec {
  schema::Params family = schema::Params_NONE;
  uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  uint32_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  uint32_t groups = 1;
  bool count_include_pad = false;
  uint32_t divisor_override = 0;
  std::vector<uint32_t> count = {};
  std::vector<int32_t> input_zero_points = {0};  // one, except for add
  int32_t output_zero_point = 0;
  std::vector<int32_t> multiplier = {};
  std::vector<uint8_t> shift = {};
  std::vector<uint8_t> negate = {};
  int32_t output_multiplier = 1 << 30;
  uint8_t output_shift = 30;
  int32_t clamp_min = -128;
  int32_t clamp_max = 127;
  float scale = 0.5f;
  float inverse_scale = 2.0f;
  std::vector<uint8_t> perm = {};
  std::vector<uint8_t> axes = {};
};

struct OpSpec {
  std::string name;
  schema::OpCode opcode = schema::OpCode_copy;
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  ParamsSpec params;
};

// What a shared constant says instead of its data.
struct SharedSpec {
  std::string key;
  uint32_t size = 0;
  bool has_key = true;
  bool keeps_data = false;
};

struct ProgramSpec {
  uint32_t format_version = 1;
  std::string identifier = "FQP1";
  std::vector<TensorSpec> tensors;
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  std::vector<OpSpec> ops;
  std::vector<std::vector<uint8_t>> constants;
  std::map<size_t, SharedSpec> shared;  // by the index of the constant
  uint32_t arena_bytes = 0;

  // The payload, at a 16-byte boundary.
  Block write() const;
};

// A program of one operator of each kind: float in and out, constants, a view, two outputs.
ProgramSpec every_kind();

// One operator of every_kind() alone: what it reads are inputs and constants, what it writes
// outputs.
ProgramSpec only(schema::OpCode opcode);

// Elements of the input of every_kind().
constexpr size_t kEveryInputFloats = 6 * 6 * 2;

}  // namespace fused_quant::testing
