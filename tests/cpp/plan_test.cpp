// SPDX-License-Identifier: BSD-3-Clause
//
// Plans: memory, determinism, introspection.

#include "plan.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "program_builder.h"

namespace fused_quant::testing {
namespace {

MemoryNeeds needs_of(const Block& payload) {
  MemoryNeeds needs;
  EXPECT_TRUE(memory_needs(payload.data(), payload.size(), &needs).ok());
  return needs;
}

struct Result {
  std::vector<float> real;
  std::vector<int8_t> codes;
  bool operator==(const Result& other) const {
    return codes == other.codes && std::memcmp(real.data(), other.real.data(), 16) == 0;
  }
};

std::vector<float> sample_input() {
  std::vector<float> x(kEveryInputFloats);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * 53 % 97) - 48) * 0.7f;
  return x;
}

Result run(Plan* plan) {
  const std::vector<float> x = sample_input();
  Result result{std::vector<float>(4, -1.0f), std::vector<int8_t>(12, 99)};
  const void* inputs[] = {x.data()};
  void* outputs[] = {result.real.data(), result.codes.data()};
  plan->execute(inputs, outputs);
  return result;
}

// Loads and runs every_kind() with memory that held `fill`.
Result load_and_run(const Block& payload, uint8_t fill) {
  const MemoryNeeds needs = needs_of(payload);
  Block persistent(needs.persistent_bytes, fill);
  Block arena(needs.arena_bytes, fill);
  Plan* plan = nullptr;
  const Status status = Plan::create(payload.data(), payload.size(), persistent.data(),
                                     persistent.size(), arena.data(), arena.size(), &plan);
  EXPECT_TRUE(status.ok()) << status.what;
  return run(plan);
}

TEST(Plan, ResultsDoNotDependOnWhatMemoryHeld) {
  const Block payload = every_kind().write();
  const Result first = load_and_run(payload, 0);
  for (const uint8_t fill : std::vector<uint8_t>{0x55, 0xaa, 0xff})
    EXPECT_TRUE(load_and_run(payload, fill) == first);
  // Something was computed: the codes are not all alike.
  EXPECT_NE(std::vector<int8_t>(12, first.codes[0]), first.codes);
}

TEST(Plan, RepeatsItselfWithAPoisonedArena) {
  const Block payload = every_kind().write();
  const MemoryNeeds needs = needs_of(payload);
  Block persistent(needs.persistent_bytes);
  Block arena(needs.arena_bytes);
  Plan* plan = nullptr;
  ASSERT_TRUE(Plan::create(payload.data(), payload.size(), persistent.data(), persistent.size(),
                           arena.data(), arena.size(), &plan)
                  .ok());
  const Result first = run(plan);
  for (int i = 0; i < 100; ++i) {
    std::memset(arena.data(), i, arena.size());
    ASSERT_TRUE(run(plan) == first);
  }
}

TEST(Plan, ResultsDoNotDependOnTheRoundingMode) {
  const Block payload = every_kind().write();
  const Result first = load_and_run(payload, 0);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    const MemoryNeeds needs = needs_of(payload);
    Block persistent(needs.persistent_bytes);
    Block arena(needs.arena_bytes);
    Plan* plan = nullptr;
    ASSERT_TRUE(Plan::create(payload.data(), payload.size(), persistent.data(), persistent.size(),
                             arena.data(), arena.size(), &plan)
                    .ok());
    const std::vector<float> x = sample_input();
    Result result{std::vector<float>(4), std::vector<int8_t>(12)};
    const void* inputs[] = {x.data()};
    void* outputs[] = {result.real.data(), result.codes.data()};
    ASSERT_EQ(std::fesetround(mode), 0);
    plan->execute(inputs, outputs);
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(result == first) << mode;
  }
}

// Every size from nothing to more than enough: the plan or an error that says how much, and never a
// byte beyond the block (a sanitizer build would see it).
TEST(Plan, SweepOfArenaAndPersistentSizes) {
  const Block payload = every_kind().write();
  const MemoryNeeds needs = needs_of(payload);
  const Result expected = load_and_run(payload, 0);
  const auto attempt = [&](size_t persistent_size, size_t arena_size, size_t needed, bool enough) {
    Block persistent(persistent_size, 0xee);
    Block arena(arena_size, 0xee);
    Plan* plan = nullptr;
    const Status status = Plan::create(payload.data(), payload.size(), persistent.data(),
                                       persistent.size(), arena.data(), arena.size(), &plan);
    if (enough) {
      ASSERT_TRUE(status.ok()) << status.what;
      ASSERT_TRUE(run(plan) == expected);
    } else {
      ASSERT_EQ(status.code, Code::kMemoryAllocationFailed);
      ASSERT_EQ(status.expected, static_cast<int64_t>(needed));
      ASSERT_EQ(plan, nullptr);
    }
  };
  for (size_t size = 0; size <= needs.arena_bytes + 64; ++size) {
    attempt(needs.persistent_bytes, size, needs.arena_bytes, size >= needs.arena_bytes);
  }
  for (size_t size = 0; size <= needs.persistent_bytes + 64; ++size) {
    attempt(size, needs.arena_bytes, needs.persistent_bytes, size >= needs.persistent_bytes);
  }
}

TEST(Plan, MisalignedAndNullMemory) {
  const Block payload = every_kind().write();
  const MemoryNeeds needs = needs_of(payload);
  Plan* plan = nullptr;
  for (size_t lead = 1; lead < 16; ++lead) {
    Block good(needs.persistent_bytes + needs.arena_bytes);
    Block bad(needs.persistent_bytes + needs.arena_bytes, 0, lead);
    EXPECT_EQ(Plan::create(payload.data(), payload.size(), bad.data(), bad.size(), good.data(),
                           good.size(), &plan)
                  .code,
              Code::kInvalidArgument);
    EXPECT_EQ(Plan::create(payload.data(), payload.size(), good.data(), good.size(), bad.data(),
                           bad.size(), &plan)
                  .code,
              Code::kInvalidArgument);
  }
  Block block(needs.persistent_bytes + needs.arena_bytes);
  EXPECT_EQ(Plan::create(payload.data(), payload.size(), nullptr, 1u << 20, block.data(),
                         block.size(), &plan)
                .code,
            Code::kMemoryAllocationFailed);
  EXPECT_EQ(Plan::create(payload.data(), payload.size(), block.data(), block.size(), nullptr,
                         1u << 20, &plan)
                .code,
            Code::kMemoryAllocationFailed);
  EXPECT_EQ(plan, nullptr);
}

TEST(Plan, PersistentBytesStayBelowThePublishedFormula) {
  const ProgramSpec program = every_kind();
  size_t operands = 0;
  for (const OpSpec& op : program.ops) operands += op.inputs.size() + op.outputs.size();
  const size_t bound = kPlanHeaderBytes + program.tensors.size() * kTensorBytes +
                       program.ops.size() * (kStepBytes + kParamsBytes) + operands * kOperandBytes;
  EXPECT_LE(needs_of(program.write()).persistent_bytes, (bound + 15) / 16 * 16);
}

TEST(Plan, DescribesItself) {
  ProgramSpec program = every_kind();
  program.tensors[0].dim_order = {0, 1, 2, 3};
  const Block payload = program.write();
  const MemoryNeeds needs = needs_of(payload);
  Block persistent(needs.persistent_bytes);
  Block arena(needs.arena_bytes);
  Plan* plan = nullptr;
  ASSERT_TRUE(Plan::create(payload.data(), payload.size(), persistent.data(), persistent.size(),
                           arena.data(), arena.size(), &plan)
                  .ok());
  ASSERT_EQ(plan->num_inputs(), 1u);
  ASSERT_EQ(plan->num_outputs(), 2u);
  EXPECT_EQ(plan->input(0).nbytes, kEveryInputFloats * sizeof(float));
  EXPECT_EQ(plan->input(0).view.dtype, schema::DType_f32);
  EXPECT_STREQ(plan->input(0).name, "t0");
  ASSERT_NE(plan->input(0).dim_order, nullptr);
  EXPECT_EQ(plan->input(0).dim_order[3], 3);
  EXPECT_EQ(plan->output(1).nbytes, 12u);
  EXPECT_EQ(plan->output(1).view.rank, 3);
  EXPECT_EQ(plan->output(1).dim_order, nullptr);
  ASSERT_EQ(plan->num_steps(), program.ops.size());
  for (uint32_t i = 0; i < plan->num_steps(); ++i) {
    const std::string op = schema::EnumNameOpCode(program.ops[i].opcode);
    EXPECT_EQ(plan->step_name(i), program.ops[i].name);
    EXPECT_EQ(plan->step_op(i), op);
    EXPECT_EQ(std::string(plan->step_kernel(i)).rfind(op, 0), 0u);
    EXPECT_EQ(plan->step_isa(i), Isa::scalar);
  }
}

TEST(Plan, StepByStepIsExecute) {
  const Block payload = every_kind().write();
  const MemoryNeeds needs = needs_of(payload);
  Block persistent(needs.persistent_bytes);
  Block arena(needs.arena_bytes);
  Plan* plan = nullptr;
  ASSERT_TRUE(Plan::create(payload.data(), payload.size(), persistent.data(), persistent.size(),
                           arena.data(), arena.size(), &plan)
                  .ok());
  const Result whole = run(plan);
  const std::vector<float> x = sample_input();
  Result steps{std::vector<float>(4), std::vector<int8_t>(12)};
  const void* inputs[] = {x.data()};
  void* outputs[] = {steps.real.data(), steps.codes.data()};
  plan->bind(inputs, outputs);
  for (uint32_t i = 0; i < plan->num_steps(); ++i) plan->run_step(i);
  EXPECT_TRUE(steps == whole);
}

TEST(Plan, ForcedInstructionSet) {
  const Block payload = every_kind().write();
  MemoryNeeds needs;
  Options options;
  options.isa = "scalar";
  EXPECT_TRUE(memory_needs(payload.data(), payload.size(), &needs, options).ok());
  options.isa = "x86_none";
  EXPECT_EQ(memory_needs(payload.data(), payload.size(), &needs, options).code,
            Code::kNotSupported);
}

// Quantize alone: ties, infinities, NaN and the largest values in one row.
TEST(Plan, BoundaryQuantize) {
  ProgramSpec program;
  const uint32_t n = 12;
  TensorSpec x;
  x.dtype = schema::DType_f32, x.storage = schema::Storage_input, x.shape = {n};
  x.scale.clear(), x.zero_point.clear();
  TensorSpec y;
  y.storage = schema::Storage_output, y.shape = {n}, y.zero_point = {3};
  program.tensors = {x, y};
  program.inputs = {0}, program.outputs = {1};
  OpSpec op;
  op.opcode = schema::OpCode_quantize, op.inputs = {0}, op.outputs = {1};
  op.params.family = schema::Params_CastParams;
  op.params.input_zero_points = {3};
  program.ops = {op};
  const Block payload = program.write();
  const MemoryNeeds needs = needs_of(payload);
  EXPECT_EQ(needs.arena_bytes, 0u);
  Block persistent(needs.persistent_bytes);
  Plan* plan = nullptr;
  ASSERT_TRUE(Plan::create(payload.data(), payload.size(), persistent.data(), persistent.size(),
                           nullptr, 0, &plan)
                  .ok());
  const float values[n] = {0.25f,    0.75f,     1.25f, -0.25f, -0.75f, -1.25f,
                           INFINITY, -INFINITY, NAN,   1e38f,  -1e38f, 61.75f};
  const int8_t expected[n] = {3, 5, 5, 3, 1, 1, 127, -128, 3, 127, -128, 127};
  int8_t codes[n] = {};
  const void* inputs[] = {values};
  void* outputs[] = {codes};
  plan->execute(inputs, outputs);
  for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(codes[i], expected[i]) << values[i];
}

}  // namespace
}  // namespace fused_quant::testing
