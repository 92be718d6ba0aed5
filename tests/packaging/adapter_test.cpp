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
#include <cstring>
#include <numeric>
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
using executorch::runtime::Result;
using executorch::runtime::Span;
namespace schema = fused_quant::schema;

constexpr int32_t kRows = 3;
constexpr int32_t kColumns = 5;
constexpr size_t kCount = kRows * kColumns;

// A vector of these is 16-byte aligned.
struct alignas(16) Aligned {
  uint8_t bytes[16];
};

// A payload with one permute: [3, 5] to [5, 3].
std::vector<uint8_t> transpose_payload(schema::DType dtype) {
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
      tensor("x", schema::Storage_input, in_shape), tensor("y", schema::Storage_output, out_shape)};
  const std::vector<uint8_t> perm = {1, 0};
  const auto params = schema::CreateLayoutParamsDirect(builder, &perm);
  const std::vector<int32_t> op_inputs = {0};
  const std::vector<int32_t> op_outputs = {1};
  const std::vector<flatbuffers::Offset<schema::Op>> ops = {
      schema::CreateOpDirect(builder, "transpose", schema::OpCode_permute, &op_inputs, &op_outputs,
                             schema::Params_LayoutParams, params.Union())};
  const std::vector<uint32_t> inputs = {0};
  const std::vector<uint32_t> outputs = {1};
  const std::vector<flatbuffers::Offset<schema::Constant>> constants;
  schema::FinishPayloadBuffer(
      builder, schema::CreatePayloadDirect(builder, 1, "test", "generic", &tensors, &inputs,
                                           &outputs, &ops, &constants, 0, 4096));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

// The payload at an address that is `shift` past a multiple of 16, with a count of its releases.
class Program {
 public:
  explicit Program(size_t shift = 0, schema::DType dtype = schema::DType_s8)
      : bytes_(transpose_payload(dtype)),
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

}  // namespace
