// SPDX-License-Identifier: BSD-3-Clause
//
// The delegate called directly through ExecuTorch's registry, for what a .pte cannot arrange: odd
// addresses, small allocators, two threads in one handle. Runs under sanitizers.

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "fused_quant_backend.h"
#include "fused_quant_generated.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;
using executorch::runtime::Span;
using executorch::runtime::TensorLayout;
namespace schema = fused_quant::schema;

constexpr int32_t kRows = 3;
constexpr int32_t kColumns = 5;
constexpr size_t kCount = kRows * kColumns;

// A vector of these is 16-byte aligned.
struct alignas(16) Aligned {
  uint8_t bytes[16];
};

constexpr char kKey[] = "fused_quant/weight";

// A payload with one permute: [3, 5] to [5, 3]. With a key it permutes a shared constant instead of
// an input.
std::vector<uint8_t> transpose_payload(schema::DType dtype, const char* key = nullptr) {
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<uint32_t> in_shape = {kRows, kColumns};
  const std::vector<uint32_t> out_shape = {kColumns, kRows};
  const bool codes = dtype != schema::DType_f32;
  const std::vector<float> scale(codes ? 1 : 0, 0.5F);
  const std::vector<int32_t> zero_point(scale.size(), -3);
  const auto tensor = [&](const char* name, schema::Storage storage,
                          const std::vector<uint32_t>& shape) {
    return schema::CreateTensorDirect(builder, name, dtype, storage, 0, &shape, nullptr, &scale,
                                      &zero_point, -1, codes ? -128 : 0, codes ? 127 : 0);
  };
  const std::vector<flatbuffers::Offset<schema::Tensor>> tensors = {
      tensor("x", key == nullptr ? schema::Storage_input : schema::Storage_constant, in_shape),
      tensor("y", schema::Storage_output, out_shape)};
  const std::vector<uint8_t> perm = {1, 0};
  const auto params = schema::CreateLayoutParamsDirect(builder, &perm);
  const std::vector<int32_t> op_inputs = {0};
  const std::vector<int32_t> op_outputs = {1};
  const std::vector<flatbuffers::Offset<schema::Op>> ops = {
      schema::CreateOpDirect(builder, "transpose", schema::OpCode_permute, &op_inputs, &op_outputs,
                             schema::Params_LayoutParams, params.Union())};
  const std::vector<uint32_t> inputs(key == nullptr ? 1 : 0, 0);
  const std::vector<uint32_t> outputs = {1};
  std::vector<flatbuffers::Offset<schema::Constant>> constants;
  if (key != nullptr) {
    constants.push_back(schema::CreateConstantDirect(builder, nullptr, key, kCount));
  }
  schema::FinishPayloadBuffer(
      builder, schema::CreatePayloadDirect(builder, 1, "test", "generic", &tensors, &inputs,
                                           &outputs, &ops, &constants, 0, 4096));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

// The payload at an address that is `shift` past a multiple of 16, with a count of its releases.
class Program {
 public:
  explicit Program(size_t shift = 0, schema::DType dtype = schema::DType_s8,
                   const char* key = nullptr)
      : bytes_(transpose_payload(dtype, key)),
        memory_(bytes_.size() / sizeof(Aligned) + 2),
        at_(memory_[0].bytes + shift),
        buffer_(
            at_, bytes_.size(), [](void* count, void*, size_t) { ++*static_cast<int*>(count); },
            &frees_) {
    std::memcpy(at_, bytes_.data(), bytes_.size());
  }

  FreeableBuffer* buffer() { return &buffer_; }
  int frees() const { return frees_; }
  void overwrite() { std::memset(at_, 0xA5, bytes_.size()); }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<Aligned> memory_;
  uint8_t* at_;
  int frees_ = 0;
  FreeableBuffer buffer_;
};

// Named data of one key, with counts of what was handed out and given back. Every buffer is memory
// of its own, `shift` past a multiple of 16, as from a loader that reads a segment anew.
class OneConstant final : public NamedDataMap {
 public:
  OneConstant(const int8_t* values, size_t size, size_t shift = 0)
      : values_(values), size_(size), shift_(shift) {}

  Result<FreeableBuffer> get_data(std::string_view key) const override {
    ++asked;
    if (failure != Error::Ok) return failure;
    if (key != kKey) return Error::NotFound;
    auto* const memory = static_cast<uint8_t*>(std::aligned_alloc(16, 64));
    std::memset(memory, 0xEE, 64);
    std::memcpy(memory + shift_, values_, size_);
    ++held;
    return FreeableBuffer(memory + shift_, size_, give_back, const_cast<OneConstant*>(this));
  }
  Result<const TensorLayout> get_tensor_layout(std::string_view) const override {
    return Error::NotSupported;
  }
  Error load_data_into(std::string_view, void*, size_t) const override {
    return Error::NotSupported;
  }
  Result<uint32_t> get_num_keys() const override { return 1u; }
  Result<const char*> get_key(uint32_t) const override { return kKey; }

  Error failure = Error::Ok;
  mutable int asked = 0;
  mutable int held = 0;

 private:
  static void give_back(void* self, void* data, size_t) {
    const auto* const map = static_cast<OneConstant*>(self);
    --map->held;
    std::free(static_cast<uint8_t*>(data) - map->shift_);
  }

  const int8_t* values_;
  size_t size_;
  size_t shift_;
};

// Counts requests on top of ExecuTorch's bump allocator.
class CountingAllocator final : public MemoryAllocator {
 public:
  CountingAllocator(uint32_t size, uint8_t* base) : MemoryAllocator(size, base) {}
  void* allocate(size_t size, size_t alignment) override {
    ++calls;
    return MemoryAllocator::allocate(size, alignment);
  }
  int calls = 0;
};

// One s8 matrix argument; the fields a test varies are public.
struct Matrix {
  Matrix(int32_t rows, int32_t columns)
      : sizes{rows, columns}, strides{columns, 1}, data(kCount + 8, int8_t{99}) {}

  EValue value(ScalarType type = ScalarType::Char) {
    impl.emplace_back(type, 2, sizes.data(), pointer == nullptr ? data.data() : pointer,
                      order.data(), strides.data());
    return EValue(Tensor(&impl.back()));
  }

  std::array<TensorImpl::SizesType, 2> sizes;
  std::array<TensorImpl::DimOrderType, 2> order = {0, 1};
  std::array<TensorImpl::StridesType, 2> strides;
  std::vector<int8_t> data;
  void* pointer = nullptr;
  std::vector<TensorImpl> impl;
};

class AdapterTest : public ::testing::Test {
 protected:
  AdapterTest() : memory_(4096) {
    executorch::runtime::runtime_init();
    backend_ = executorch::runtime::get_backend_class("FusedQuantBackend");
    allocator_ =
        std::make_unique<CountingAllocator>(memory_.size() * sizeof(Aligned), memory_[0].bytes);
    std::iota(x_.data.begin(), x_.data.begin() + kCount, int8_t{-7});
  }

  Result<DelegateHandle*> init(FreeableBuffer* buffer, MemoryAllocator* allocator) {
    BackendInitContext context(allocator);
    return backend_->init(context, buffer, {});
  }

  Result<DelegateHandle*> init_with(const NamedDataMap* map, MemoryAllocator* allocator,
                                    FreeableBuffer* buffer) {
    BackendInitContext context(allocator, nullptr, "forward", map);
    return backend_->init(context, buffer, {});
  }

  Error execute(DelegateHandle* handle, std::vector<EValue> values) {
    std::vector<EValue*> pointers;
    for (EValue& value : values) pointers.push_back(&value);
    BackendExecutionContext context;
    return backend_->execute(context, handle, Span<EValue*>(pointers.data(), pointers.size()));
  }

  void expect_transposed() {
    for (int32_t row = 0; row < kRows; ++row) {
      for (int32_t column = 0; column < kColumns; ++column) {
        EXPECT_EQ(y_.data[static_cast<size_t>(column * kRows + row)],
                  x_.data[static_cast<size_t>(row * kColumns + column)]);
      }
    }
  }

  BackendInterface* backend_ = nullptr;
  std::vector<Aligned> memory_;
  std::unique_ptr<CountingAllocator> allocator_;
  Matrix x_{kRows, kColumns};
  Matrix y_{kColumns, kRows};
};

TEST_F(AdapterTest, RegisteredOnceAndAvailable) {
  ASSERT_NE(backend_, nullptr);
  EXPECT_TRUE(backend_->is_available());
  const size_t count = executorch::runtime::get_num_registered_backends();
  EXPECT_EQ(fused_quant_register_backend(), 0u);
  EXPECT_EQ(fused_quant_register_backend(), 0u);
  EXPECT_EQ(executorch::runtime::get_num_registered_backends(), count);
  EXPECT_STRNE(fused_quant_version(), "");
  EXPECT_STRNE(fused_quant_executorch_version(), "");
}

TEST_F(AdapterTest, RunsInPlaceAndKeepsThePayload) {
  Program program;
  const auto handle = init(program.buffer(), allocator_.get());
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(program.frees(), 0);
  ASSERT_EQ(execute(*handle, {x_.value(), y_.value()}), Error::Ok);
  expect_transposed();
  backend_->destroy(*handle);
  EXPECT_EQ(program.frees(), 0);  // ExecuTorch frees it, after destroy
}

TEST_F(AdapterTest, ExecuteTakesNoMemoryAndRepeats) {
  Program program;
  const auto handle = init(program.buffer(), allocator_.get());
  ASSERT_TRUE(handle.ok());
  const int calls = allocator_->calls;
  const size_t used = allocator_->used_size();
  for (int i = 0; i < 1000; ++i) {
    std::fill(y_.data.begin(), y_.data.end(), int8_t{99});
    ASSERT_EQ(execute(*handle, {x_.value(), y_.value()}), Error::Ok);
  }
  expect_transposed();
  EXPECT_EQ(allocator_->calls, calls);
  EXPECT_EQ(allocator_->used_size(), used);
}

TEST_F(AdapterTest, CopiesAMisalignedPayload) {
  for (size_t shift = 1; shift < 16; ++shift) {
    Program program(shift);
    allocator_->reset();
    const auto handle = init(program.buffer(), allocator_.get());
    ASSERT_TRUE(handle.ok()) << shift;
    EXPECT_EQ(program.frees(), 1);
    program.overwrite();
    std::fill(y_.data.begin(), y_.data.end(), int8_t{99});
    ASSERT_EQ(execute(*handle, {x_.value(), y_.value()}), Error::Ok);
    expect_transposed();
  }
}

TEST_F(AdapterTest, EverySmallAllocatorIsACleanError) {
  Program first;
  ASSERT_TRUE(init(first.buffer(), allocator_.get()).ok());
  const size_t need = allocator_->used_size();
  ASSERT_GT(need, 0u);
  for (size_t size = 0; size <= need + 64; ++size) {
    // At the very end of its memory, so that a sanitizer sees one byte too many.
    std::vector<Aligned> memory(need / sizeof(Aligned) + 6);
    MemoryAllocator small(static_cast<uint32_t>(size), memory[0].bytes);
    Program program;
    const auto handle = init(program.buffer(), &small);
    if (size >= need) {
      ASSERT_TRUE(handle.ok()) << size;
      ASSERT_EQ(execute(*handle, {x_.value(), y_.value()}), Error::Ok);
    } else {
      ASSERT_EQ(handle.error(), Error::MemoryAllocationFailed) << size;
    }
  }
  expect_transposed();
}

TEST_F(AdapterTest, InitRefusesWhatIsMissing) {
  Program program;
  EXPECT_EQ(init(program.buffer(), nullptr).error(), Error::InvalidArgument);
  EXPECT_EQ(init(nullptr, allocator_.get()).error(), Error::InvalidArgument);
  FreeableBuffer empty;
  EXPECT_FALSE(init(&empty, allocator_.get()).ok());
  FreeableBuffer remote(uint64_t{1} << 40, 64, nullptr);
  EXPECT_FALSE(init(&remote, allocator_.get()).ok());
}

TEST_F(AdapterTest, ForcedInstructionSet) {
  executorch::runtime::BackendOption option = {};
  std::strcpy(option.key, "isa");
  const auto init_with = [&](const char* name) {
    std::array<char, executorch::runtime::kMaxOptionValueLength> text = {};
    std::strcpy(text.data(), name);
    option.value = text;
    Program program;
    BackendInitContext context(allocator_.get(), nullptr, nullptr, nullptr,
                               Span<const executorch::runtime::BackendOption>(&option, 1));
    return backend_->init(context, program.buffer(), {}).error();
  };
  EXPECT_EQ(init_with("scalar"), Error::Ok);
  EXPECT_EQ(init_with("no_such_isa"), Error::NotSupported);
}

TEST_F(AdapterTest, ExecuteRefusesWrongArguments) {
  Program program;
  const auto handle = init(program.buffer(), allocator_.get());
  ASSERT_TRUE(handle.ok());
  const auto refused = [&](std::vector<EValue> values) {
    const bool invalid = execute(*handle, std::move(values)) == Error::InvalidArgument;
    const bool untouched =
        std::all_of(y_.data.begin(), y_.data.end(), [](int8_t v) { return v == 99; });
    return invalid && untouched;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({x_.value()}));
  EXPECT_TRUE(refused({x_.value(), y_.value(), y_.value()}));
  EXPECT_TRUE(refused({EValue(int64_t{3}), y_.value()}));
  EXPECT_TRUE(refused({x_.value(), EValue(1.0)}));
  EXPECT_TRUE(refused({x_.value(ScalarType::Byte), y_.value()}));
  EXPECT_TRUE(refused({x_.value(), y_.value(ScalarType::Bool)}));
  Matrix swapped(kColumns, kRows);
  EXPECT_TRUE(refused({swapped.value(), y_.value()}));
  Matrix column_major(kRows, kColumns);
  column_major.strides = {1, kRows};
  column_major.order = {1, 0};
  EXPECT_TRUE(refused({column_major.value(), y_.value()}));
  Matrix gaps(kRows, kColumns);
  gaps.strides = {kColumns + 1, 1};
  EXPECT_TRUE(refused({gaps.value(), y_.value()}));
  // and it still works
  ASSERT_EQ(execute(*handle, {x_.value(), y_.value()}), Error::Ok);
  expect_transposed();
}

TEST_F(AdapterTest, ExecuteRefusesATensorWithoutData) {
  Program program;
  const auto handle = init(program.buffer(), allocator_.get());
  ASSERT_TRUE(handle.ok());
  TensorImpl no_data(ScalarType::Char, 2, x_.sizes.data(), nullptr, x_.order.data(),
                     x_.strides.data());
  EXPECT_EQ(execute(*handle, {EValue(Tensor(&no_data)), y_.value()}), Error::InvalidArgument);
  TensorImpl no_strides(ScalarType::Char, 2, x_.sizes.data(), x_.data.data());
  EXPECT_EQ(execute(*handle, {EValue(Tensor(&no_strides)), y_.value()}), Error::InvalidArgument);
}

TEST_F(AdapterTest, ExecuteRefusesAMisalignedTensor) {
  Program program(0, schema::DType_f32);
  const auto handle = init(program.buffer(), allocator_.get());
  ASSERT_TRUE(handle.ok());
  std::vector<Aligned> in(kCount * sizeof(float) / sizeof(Aligned) + 2);
  std::vector<Aligned> out(in.size());
  for (size_t shift = 0; shift < 8; ++shift) {
    const Error expected = shift % alignof(float) == 0 ? Error::Ok : Error::InvalidArgument;
    x_.pointer = in[0].bytes + shift;
    y_.pointer = out[0].bytes;
    EXPECT_EQ(execute(*handle, {x_.value(ScalarType::Float), y_.value(ScalarType::Float)}),
              expected);
    std::swap(x_.pointer, y_.pointer);
    EXPECT_EQ(execute(*handle, {x_.value(ScalarType::Float), y_.value(ScalarType::Float)}),
              expected);
  }
}

TEST_F(AdapterTest, SharedConstantIsHeldUntilDestroy) {
  const OneConstant map(x_.data.data(), kCount);
  Program program(0, schema::DType_s8, kKey);
  const auto handle = init_with(&map, allocator_.get(), program.buffer());
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(map.held, 1);
  EXPECT_EQ(map.asked, 1);
  for (int i = 0; i < 3; ++i) {
    std::fill(y_.data.begin(), y_.data.end(), int8_t{99});
    ASSERT_EQ(execute(*handle, {y_.value()}), Error::Ok);
    expect_transposed();
  }
  EXPECT_EQ(map.asked, 1);
  EXPECT_EQ(map.held, 1);
  backend_->destroy(*handle);
  EXPECT_EQ(map.held, 0);
}

TEST_F(AdapterTest, SharedConstantOfTwoMethods) {
  const OneConstant map(x_.data.data(), kCount);
  Program first(0, schema::DType_s8, kKey);
  Program second(0, schema::DType_s8, kKey);
  const auto one = init_with(&map, allocator_.get(), first.buffer());
  const auto two = init_with(&map, allocator_.get(), second.buffer());
  ASSERT_TRUE(one.ok() && two.ok());
  backend_->destroy(*one);
  ASSERT_EQ(execute(*two, {y_.value()}), Error::Ok);  // a sanitizer would see freed bytes
  expect_transposed();
  backend_->destroy(*two);
  EXPECT_EQ(map.held, 0);
}

TEST_F(AdapterTest, SharedConstantAtAnOddAddressIsCopied) {
  for (size_t shift = 1; shift < 16; ++shift) {
    const OneConstant map(x_.data.data(), kCount, shift);
    allocator_->reset();
    Program program(0, schema::DType_s8, kKey);
    const auto handle = init_with(&map, allocator_.get(), program.buffer());
    ASSERT_TRUE(handle.ok()) << shift;
    EXPECT_EQ(map.held, 0);  // one copy is kept
    std::fill(y_.data.begin(), y_.data.end(), int8_t{99});
    ASSERT_EQ(execute(*handle, {y_.value()}), Error::Ok);
    expect_transposed();
    backend_->destroy(*handle);
    EXPECT_EQ(map.held, 0);
  }
}

TEST_F(AdapterTest, SharedConstantThatIsMissingOrWrong) {
  const auto error_with = [&](const NamedDataMap* map, const char* key = kKey) {
    allocator_->reset();
    Program program(0, schema::DType_s8, key);
    return init_with(map, allocator_.get(), program.buffer()).error();
  };
  EXPECT_EQ(error_with(nullptr), Error::InvalidProgram);
  OneConstant map(x_.data.data(), kCount);
  EXPECT_EQ(error_with(&map, "fused_quant/other"), Error::InvalidProgram);
  map.failure = Error::AccessFailed;
  EXPECT_EQ(error_with(&map), Error::AccessFailed);
  EXPECT_EQ(map.held, 0);
  for (const size_t size : {kCount - 1, kCount + 1}) {
    const OneConstant other(x_.data.data(), size);
    EXPECT_EQ(error_with(&other), Error::InvalidProgram);
    EXPECT_EQ(other.asked, 1);
    EXPECT_EQ(other.held, 0);
  }
}

TEST_F(AdapterTest, SharedConstantIsGivenBackAfterEverySmallAllocator) {
  for (const size_t shift : {size_t{0}, size_t{3}}) {
    const OneConstant map(x_.data.data(), kCount, shift);
    allocator_->reset();
    Program first(0, schema::DType_s8, kKey);
    const auto made = init_with(&map, allocator_.get(), first.buffer());
    ASSERT_TRUE(made.ok());
    const size_t need = allocator_->used_size();
    backend_->destroy(*made);
    for (size_t size = 0; size <= need + 64; ++size) {
      std::vector<Aligned> memory(need / sizeof(Aligned) + 6);
      MemoryAllocator small(static_cast<uint32_t>(size), memory[0].bytes);
      Program program(0, schema::DType_s8, kKey);
      const auto handle = init_with(&map, &small, program.buffer());
      if (size >= need) {
        ASSERT_TRUE(handle.ok()) << size;
        ASSERT_EQ(execute(*handle, {y_.value()}), Error::Ok);
        backend_->destroy(*handle);
      } else {
        ASSERT_EQ(handle.error(), Error::MemoryAllocationFailed) << size;
      }
      ASSERT_EQ(map.held, 0) << size;
    }
  }
}

}  // namespace
