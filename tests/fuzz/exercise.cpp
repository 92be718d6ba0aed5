// SPDX-License-Identifier: BSD-3-Clause

#include "exercise.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "payload.h"
#include "plan.h"

namespace fused_quant::fuzz {
namespace {

// Beyond these a payload is only loaded: mutations may ask for gigabytes or hours.
constexpr size_t kMaxBlockBytes = size_t{1} << 24;
constexpr uint64_t kMaxWork = 4'000'000;
constexpr unsigned kSecondsPerCase = 60;

// What every payload may share: under the key "fuzz/", bytes that are never written.
constexpr char kSharedKey[] = "fuzz/";
alignas(kAlignment) const uint8_t shared_bytes[72] = {1, 200, 3, 100, 5, 50, 127, 128};

ConstantBytes find_constant(void*, const char* key, size_t key_length) {
  if (key_length != std::strlen(kSharedKey) || std::memcmp(key, kSharedKey, key_length) != 0) {
    return {};
  }
  return {shared_bytes, sizeof(shared_bytes)};
}

Options options() {
  Options result;
  result.constants.find = find_constant;
  return result;
}

}  // namespace

Attempt attempt;
Totals totals;

void report_death() {
  std::fprintf(stderr, "payload_fuzz: %s, %s at byte %zu, value 0x%" PRIx64 "\n", attempt.file,
               attempt.change, attempt.position, attempt.value);
  std::FILE* file = std::fopen("payload_fuzz_crash.fqp", "wb");
  if (file != nullptr) {
    std::fwrite(attempt.data, 1, attempt.size, file);
    std::fclose(file);
  }
}

void require(bool ok, const char* what, const Status& status) {
  if (ok) return;
  std::fprintf(
      stderr, "payload_fuzz: %s (code %d, %s, where %d, got %" PRId64 ", expected %" PRId64 ")\n",
      what, static_cast<int>(status.code), status.what, status.where, status.got, status.expected);
  report_death();
  std::_Exit(1);
}

Block::Block(size_t size, uint8_t fill, size_t lead) : lead_(lead), size_(size) {
  void* memory = nullptr;
  const size_t bytes = lead + size;
  require(posix_memalign(&memory, kAlignment, bytes == 0 ? 1 : bytes) == 0, "out of memory");
  memory_.reset(static_cast<uint8_t*>(memory));
  std::memset(memory, fill, bytes);
}

void Block::Free::operator()(uint8_t* memory) const { std::free(memory); }

namespace {

uint64_t count_of(const schema::Tensor& tensor) {
  uint64_t count = 1;
  if (tensor.shape() != nullptr) {
    for (const uint32_t size : *tensor.shape()) count *= size;
  }
  return count;
}

// Upper estimate of the inner loop iterations of one execution of a verified payload.
uint64_t work_of(const schema::Payload& payload) {
  uint64_t work = 0;
  for (const schema::Op* op : *payload.ops()) {
    uint64_t largest = 1;
    uint64_t weight = 1;
    for (uint32_t k = 0; op->inputs() != nullptr && k < op->inputs()->size(); ++k) {
      const int32_t index = op->inputs()->Get(k);
      if (index < 0) continue;
      const uint64_t count = count_of(*payload.tensors()->Get(static_cast<uint32_t>(index)));
      if (k == 1 && op->params_type() == schema::Params_DotParams) {
        weight = count;
      } else if (count > largest) {
        largest = count;
      }
    }
    for (const int32_t index : *op->outputs()) {
      const uint64_t count = count_of(*payload.tensors()->Get(static_cast<uint32_t>(index)));
      if (count > largest) largest = count;
    }
    if (const schema::WindowParams* window = op->params_as_WindowParams()) {
      // Taps outside the input are not visited.
      const uint64_t taps = uint64_t{window->kernel_h()} * window->kernel_w();
      weight = taps < largest ? taps : largest;
      if (weight == 0 || op->opcode() == schema::OpCode_adaptive_avg_pool2d) weight = largest;
    }
    if (weight > kMaxWork || largest > kMaxWork) return std::numeric_limits<uint64_t>::max();
    work += weight * largest;
  }
  return work;
}

struct Buffers {
  std::vector<Block> blocks;
  std::vector<void*> pointers;
};

// Kernels may rely on no more than the alignment of an element, which `apart` gives them exactly.
template <typename Info>
Buffers buffers(uint32_t count, uint8_t fill, bool apart, Info info) {
  Buffers result;
  for (uint32_t i = 0; i < count; ++i) {
    const TensorInfo tensor = info(i);
    const size_t lead = apart ? dtype_bytes(tensor.view.dtype) : 0;
    result.blocks.emplace_back(tensor.nbytes, fill, lead);
    result.pointers.push_back(result.blocks.back().data());
  }
  return result;
}

size_t boundary_bytes(const schema::Payload& payload) {
  uint64_t bytes = 0;
  for (const schema::Tensor* tensor : *payload.tensors()) {
    if (tensor->storage() != schema::Storage_constant) bytes += 8 * count_of(*tensor);
  }
  return bytes;
}

// One execution whose buffers hold `fill` beforehand, with the same inputs every time.
Buffers run(Plan* plan, const Block& arena, uint8_t fill, bool apart) {
  Buffers inputs =
      buffers(plan->num_inputs(), 0, apart, [plan](uint32_t i) { return plan->input(i); });
  Buffers outputs =
      buffers(plan->num_outputs(), fill, apart, [plan](uint32_t i) { return plan->output(i); });
  uint32_t state = 12345;
  for (const Block& block : inputs.blocks) {
    for (size_t i = 0; i < block.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      block.data()[i] = static_cast<uint8_t>(state >> 24);
    }
  }
  std::memset(arena.data(), fill, arena.size());
  plan->execute(inputs.pointers.data(), outputs.pointers.data());
  return outputs;
}

void execute(Plan* plan, const Block& arena) {
  const Buffers first = run(plan, arena, 0x5a, false);
  const Buffers second = run(plan, arena, 0xa5, true);
  for (size_t i = 0; i < first.blocks.size(); ++i) {
    const Block& a = first.blocks[i];
    const Block& b = second.blocks[i];
    require(std::memcmp(a.data(), b.data(), a.size()) == 0,
            "an output depends on what the arena or the output held before");
  }
  ++totals.executed;
}

// The bound that a payload's `persistent_bytes` holds, from plan.h.
size_t persistent_bound(const schema::Payload& payload) {
  size_t operands = 0;
  for (const schema::Op* op : *payload.ops()) {
    operands += op->inputs() == nullptr ? 0 : op->inputs()->size();
    operands += op->outputs()->size();
  }
  const size_t ops = payload.ops()->size();
  return align_up(kPlanHeaderBytes + payload.tensors()->size() * kTensorBytes +
                      ops * (kStepBytes + kParamsBytes) + operands * kOperandBytes,
                  kAlignment);
}

void check_blocks_too_small(const uint8_t* data, size_t size, const Block& persistent,
                            const Block& arena) {
  Plan* plan = nullptr;
  if (arena.size() > 0) {
    const Status status = Plan::create(data, size, persistent.data(), persistent.size(),
                                       arena.data(), arena.size() - 1, &plan, options());
    require(status.code == Code::kMemoryAllocationFailed, "an arena too small by one", status);
  }
  const Status status = Plan::create(data, size, persistent.data(), persistent.size() - 1,
                                     arena.data(), arena.size(), &plan, options());
  require(status.code == Code::kMemoryAllocationFailed, "a persistent block too small", status);
  require(plan == nullptr, "a plan in spite of an error");
}

}  // namespace

Status load_and_run(const uint8_t* data, size_t size) {
  MemoryNeeds needs;
  const Status status = memory_needs(data, size, &needs, options());
  ++totals.by_code[static_cast<size_t>(status.code)];
  Plan* plan = nullptr;
  if (!status.ok()) {
    const Block block(2048);
    const Status again =
        Plan::create(data, size, block.data(), 1024, block.data() + 1024, 1024, &plan, options());
    require(!again.ok() && plan == nullptr, "create accepts what memory_needs refuses", again);
    return status;
  }
  const schema::Payload& payload = *schema::GetPayload(data);
  require(needs.persistent_bytes <= persistent_bound(payload), "persistent bytes beyond the bound");
  if (needs.arena_bytes > kMaxBlockBytes || boundary_bytes(payload) > kMaxBlockBytes) {
    ++totals.too_large;
    return status;
  }
  const Block persistent(needs.persistent_bytes, 0xcd);
  const Block arena(needs.arena_bytes, 0xcd);
  check_blocks_too_small(data, size, persistent, arena);
  const Status created = Plan::create(data, size, persistent.data(), persistent.size(),
                                      arena.data(), arena.size(), &plan, options());
  require(created.ok() && plan != nullptr, "create refuses what memory_needs accepts", created);
  if (work_of(payload) > kMaxWork) {
    ++totals.too_large;
  } else {
    execute(plan, arena);
  }
  return status;
}

Status exercise(const uint8_t* data, size_t size) {
  Block copy(size);
  if (size > 0) std::memcpy(copy.data(), data, size);
  attempt.data = copy.data();
  attempt.size = size;
  alarm(kSecondsPerCase);
  const Status status = load_and_run(copy.data(), size);
  alarm(0);
  attempt.data = data;
  return status;
}

}  // namespace fused_quant::fuzz
