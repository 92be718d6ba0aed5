// SPDX-License-Identifier: BSD-3-Clause
//
// Constants that the program around a payload keeps and provides under a key.

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "refusal.h"

namespace fused_quant::testing {
namespace {

// A provider with blocks of exactly the constants' sizes, and a count of what was asked for.
class Store {
 public:
  void put(const std::string& key, const std::vector<uint8_t>& bytes, size_t lead = 0) {
    Block block(bytes.size(), 0, lead);
    std::memcpy(block.data(), bytes.data(), bytes.size());
    blocks_.erase(key);
    blocks_.emplace(key, std::move(block));
  }

  Options options() {
    Options result;
    result.constants = {find, this};
    return result;
  }

  int asked = 0;

 private:
  static ConstantBytes find(void* context, const char* key, size_t key_length) {
    Store* const self = static_cast<Store*>(context);
    ++self->asked;
    const auto found = self->blocks_.find(std::string(key, key_length));
    if (found == self->blocks_.end()) return {};
    return {found->second.data(), found->second.size()};
  }

  std::map<std::string, Block> blocks_;
};

std::string key_of(size_t index) { return "fused_quant/constant-" + std::to_string(index); }

// Moves constant `index` of `program` out of it, into `store`.
void share(ProgramSpec& program, size_t index, Store* store) {
  store->put(key_of(index), program.constants[index]);
  program.shared[index] = {key_of(index), static_cast<uint32_t>(program.constants[index].size())};
}

Status load(const ProgramSpec& program, const Options& options) {
  const Block payload = program.write();
  MemoryNeeds needs;
  const Status status = memory_needs(payload.data(), payload.size(), &needs, options);
  // Creating a plan must come to the same verdict.
  const Block persistent(1 << 16);
  const Block arena(1 << 16);
  Plan* plan = nullptr;
  const Status created =
      Plan::create(payload.data(), payload.size(), persistent.data(), persistent.size(),
                   arena.data(), arena.size(), &plan, options);
  EXPECT_EQ(created.code, status.code) << created.what;
  EXPECT_STREQ(created.what, status.what);
  EXPECT_EQ(plan == nullptr, !status.ok());
  return status;
}

void refuse(const ProgramSpec& program, const Options& options, const char* what) {
  const Status status = load(program, options);
  EXPECT_EQ(status.code, Code::kInvalidProgram);
  EXPECT_STREQ(status.what, what);
}

struct Result {
  std::vector<float> real = std::vector<float>(4);
  std::vector<int8_t> codes = std::vector<int8_t>(12);
  bool operator==(const Result& other) const { return real == other.real && codes == other.codes; }
};

Result run(const ProgramSpec& program, const Options& options) {
  const Block payload = program.write();
  MemoryNeeds needs;
  EXPECT_TRUE(memory_needs(payload.data(), payload.size(), &needs, options).ok());
  const Block persistent(needs.persistent_bytes);
  const Block arena(needs.arena_bytes, 0xa5);
  Plan* plan = nullptr;
  EXPECT_TRUE(Plan::create(payload.data(), payload.size(), persistent.data(), persistent.size(),
                           arena.data(), arena.size(), &plan, options)
                  .ok());
  std::vector<float> x(kEveryInputFloats);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 31) - 15.0f;
  Result result;
  const void* inputs[] = {x.data()};
  void* outputs[] = {result.real.data(), result.codes.data()};
  plan->execute(inputs, outputs);
  return result;
}

TEST(SharedConstant, GivesTheBitsOfAConstantInside) {
  const ProgramSpec inside = every_kind();
  const Result expected = run(inside, Options());
  Store store;
  ProgramSpec outside = inside;
  for (size_t i = 0; i < inside.constants.size(); ++i) {
    share(outside, i, &store);
    EXPECT_TRUE(run(outside, store.options()) == expected) << i;
  }
  EXPECT_LT(outside.write().size(), inside.write().size());
}

TEST(SharedConstant, ItsBytesAreTheProviders) {
  ProgramSpec program = every_kind();
  const Result before = run(program, Options());
  Store store;
  for (size_t i = 0; i < program.constants.size(); ++i) share(program, i, &store);
  EXPECT_TRUE(run(program, store.options()) == before);
  for (size_t i = 0; i < program.constants.size(); ++i) {
    store.put(key_of(i), std::vector<uint8_t>(program.constants[i].size(), 0));
  }
  EXPECT_FALSE(run(program, store.options()) == before);
}

TEST(SharedConstant, NothingIsAskedForAfterwards) {
  Store store;
  ProgramSpec program = every_kind();
  share(program, 0, &store);
  const Block payload = program.write();
  MemoryNeeds needs;
  ASSERT_TRUE(memory_needs(payload.data(), payload.size(), &needs, store.options()).ok());
  const Block persistent(needs.persistent_bytes);
  const Block arena(needs.arena_bytes);
  Plan* plan = nullptr;
  ASSERT_TRUE(Plan::create(payload.data(), payload.size(), persistent.data(), persistent.size(),
                           arena.data(), arena.size(), &plan, store.options())
                  .ok());
  const int asked = store.asked;
  EXPECT_GT(asked, 0);
  const std::vector<float> x(kEveryInputFloats);
  Result result;
  const void* inputs[] = {x.data()};
  void* outputs[] = {result.real.data(), result.codes.data()};
  plan->execute(inputs, outputs);
  EXPECT_EQ(store.asked, asked);
}

TEST(SharedConstant, APayloadWithoutOneAsksForNothing) {
  Store store;
  EXPECT_TRUE(load(every_kind(), store.options()).ok());
  EXPECT_EQ(store.asked, 0);
}

TEST(SharedConstant, NoProviderAndNoSuchKey) {
  Store store;
  ProgramSpec program = every_kind();
  share(program, 0, &store);
  refuse(program, Options(), "shared constant, but nothing provides any");
  Store empty;
  refuse(program, empty.options(), "shared constant is not provided under its key");
  program.shared[0].key.push_back('x');
  refuse(program, store.options(), "shared constant is not provided under its key");
}

TEST(SharedConstant, AnotherSize) {
  for (const int difference : {-1, 1}) {
    Store store;
    ProgramSpec program = every_kind();
    share(program, 0, &store);
    std::vector<uint8_t> bytes = program.constants[0];
    bytes.resize(bytes.size() + static_cast<size_t>(difference));
    store.put(key_of(0), bytes);
    refuse(program, store.options(), "shared constant of another size");
    // Payload and provider agree, but the tensor has another size.
    program.shared[0].size = static_cast<uint32_t>(bytes.size());
    refuse(program, store.options(), "constant size");
  }
  for (const uint32_t size : {0u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    Store store;
    ProgramSpec program = every_kind();
    share(program, 0, &store);
    program.shared[0].size = size;
    refuse(program, store.options(), "shared constant of another size");
  }
}

TEST(SharedConstant, Misaligned) {
  for (size_t lead = 1; lead < 16; ++lead) {
    Store store;
    ProgramSpec program = every_kind();
    share(program, 0, &store);
    store.put(key_of(0), program.constants[0], lead);
    refuse(program, store.options(), "shared constant is not 16-byte aligned");
  }
}

TEST(SharedConstant, KeyAndDataOrNeither) {
  Store store;
  ProgramSpec program = every_kind();
  share(program, 0, &store);
  program.shared[0].keeps_data = true;
  refuse(program, store.options(), "constant with a key and data");
  program.shared[0].has_key = false;
  refuse(program, store.options(), "constant with a size and no key");
  program.shared[0] = {"", static_cast<uint32_t>(program.constants[0].size())};
  store.put("", program.constants[0]);
  refuse(program, store.options(), "constant with an empty key");
}

TEST(SharedConstant, OneThatNoTensorUsesIsCheckedToo) {
  Store store;
  ProgramSpec program = every_kind();
  program.constants.push_back(std::vector<uint8_t>(64));
  share(program, program.constants.size() - 1, &store);
  EXPECT_TRUE(load(program, store.options()).ok());
  refuse(program, Options(), "shared constant, but nothing provides any");
}

}  // namespace
}  // namespace fused_quant::testing
