// SPDX-License-Identifier: BSD-3-Clause

#include "isa.h"

#include <gtest/gtest.h>

#include <string>

#include "op.h"

namespace fused_quant {
namespace {

TEST(Isa, NamesRoundTrip) {
  Isa isa = Isa::scalar;
  ASSERT_TRUE(select_isa("scalar", &isa).ok());
  EXPECT_EQ(isa, Isa::scalar);
  EXPECT_STREQ(isa_name(isa), "scalar");
  EXPECT_TRUE(isa_available(isa));
}

TEST(Isa, NoRequestGivesAnAvailableOne) {
  for (const char* request : {static_cast<const char*>(nullptr), ""}) {
    Isa isa = static_cast<Isa>(99);
    ASSERT_TRUE(select_isa(request, &isa).ok());
    EXPECT_TRUE(isa_available(isa));
  }
}

TEST(Isa, UnknownRequestIsAnError) {
  for (const char* request : {"scala", "scalarr", "x86_avx9", " scalar"}) {
    Isa isa = Isa::scalar;
    EXPECT_EQ(select_isa(request, &isa).code, Code::kNotSupported) << request;
  }
  EXPECT_STREQ(isa_name(static_cast<Isa>(99)), "unknown");
  EXPECT_FALSE(isa_available(static_cast<Isa>(99)));
}

TEST(Isa, HifiRunsWhenAskedForAndOnlyThen) {
  Isa isa = Isa::scalar;
  ASSERT_TRUE(select_isa("xtensa_hifi", &isa).ok());
  EXPECT_EQ(isa, Isa::xtensa_hifi);
  EXPECT_STREQ(isa_name(isa), "xtensa_hifi");
  ASSERT_TRUE(select_isa(nullptr, &isa).ok());
  EXPECT_NE(isa, Isa::xtensa_hifi);
  EXPECT_TRUE(isa_allows(Isa::xtensa_hifi, Isa::scalar));
  EXPECT_TRUE(isa_allows(Isa::xtensa_hifi, Isa::xtensa_hifi));
  EXPECT_FALSE(isa_allows(Isa::scalar, Isa::xtensa_hifi));
}

TEST(KernelTable, EveryOperatorHasAScalarKernel) {
  for (const schema::OpCode opcode : schema::EnumValuesOpCode()) {
    const Kernel* kernel = find_kernel(opcode, schema::DType_s8, Isa::scalar);
    // hardswish is a table in 8 bits; argmax gives indices.
    if (kernel == nullptr) kernel = find_kernel(opcode, schema::DType_s16, Isa::scalar);
    if (kernel == nullptr) kernel = find_kernel(opcode, schema::DType_s64, Isa::scalar);
    ASSERT_NE(kernel, nullptr) << schema::EnumNameOpCode(opcode);
    EXPECT_EQ(kernel->opcode, opcode);
    EXPECT_STREQ(kernel->op, schema::EnumNameOpCode(opcode));
    EXPECT_EQ(kernel->isa, Isa::scalar);
  }
}

TEST(KernelTable, RowsAreCompleteAndNamed) {
  ASSERT_GT(num_kernels(), 0u);
  for (uint32_t i = 0; i < num_kernels(); ++i) {
    const Kernel& kernel = kernel_at(i);
    EXPECT_NE(kernel.prepare, nullptr);
    EXPECT_NE(kernel.run, nullptr);
    const std::string name = kernel.name;
    const std::string suffix = std::string("_") + isa_name(kernel.isa);
    ASSERT_GT(name.size(), suffix.size());
    EXPECT_EQ(name.rfind(kernel.op, 0), 0u) << name;
    EXPECT_EQ(name.substr(name.size() - suffix.size()), suffix) << name;
  }
}

TEST(KernelTable, NothingForWhatIsNotThere) {
  EXPECT_EQ(find_kernel(schema::OpCode_conv2d, schema::DType_s64, Isa::scalar), nullptr);
  EXPECT_EQ(find_kernel(static_cast<schema::OpCode>(60000), schema::DType_s8, Isa::scalar),
            nullptr);
}

}  // namespace
}  // namespace fused_quant
