// SPDX-License-Identifier: BSD-3-Clause
//
// fq_tester: runs the cases of the host file cases.bin on the target and compares bits there.
// firmware/cases.py writes the file. Little-endian, no padding:
//   file  "FQC2", u32 number of cases, cases
//   case  CaseHeader, u32 size of every input and output, payload, inputs, expected outputs
// A whole .pte may stand in place of a payload; operands are then the program's.
// A case passes if creating the plan gives the expected code and, for kOk, two executions on
// differently poisoned memory both give the expected outputs and write nothing beyond them.
#include <cstdint>
#include <cstring>

#include "core_report.h"
#include "measure.h"
#include "plan.h"
#include "pte/program_reader.h"
#include "report.h"
#include "semihosting.h"

namespace fused_quant::firmware {
namespace {

constexpr uint32_t kMagic = 0x32435146;  // "FQC2"
constexpr uint32_t kMaxOperands = 64;    // inputs and outputs of one case
constexpr size_t kGuardBytes = 16;
constexpr uint8_t kGuard = 0xB7;

struct CaseHeader {
  uint32_t payload_size;
  uint32_t payload_shift;  // bytes the payload is moved off its 16-byte alignment
  uint32_t arena_shift;    // the same for the arena
  uint32_t expected_code;  // fused_quant::Code of memory_needs or Plan::create
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t is_program;  // 1 = the payload is a .pte whose method "forward" is to run
  uint32_t isa;         // instruction set to ask for: an Isa, 0 = the best there is
};

alignas(16) uint8_t pool[FQ_TESTER_POOL_BYTES];

// Hands out the pool from its start; everything is given back before the next case.
class Pool {
 public:
  // 16-byte aligned, with room for a guard behind it; null when the pool is exhausted.
  uint8_t* take(size_t bytes, size_t shift = 0) {
    const size_t total = (bytes + shift + kGuardBytes + 15) / 16 * 16;
    if (bytes > sizeof(pool) || total > sizeof(pool) - used_) {
      return nullptr;
    }
    uint8_t* block = pool + used_ + shift;
    used_ += total;
    return block;
  }

 private:
  size_t used_ = 0;
};

struct Case {
  CaseHeader header;
  Options options;
  uint32_t sizes[kMaxOperands];
  const uint8_t* payload;
  const void* inputs[kMaxOperands];
  const uint8_t* expected[kMaxOperands];
  void* outputs[kMaxOperands];
};

bool broken(uint32_t index, const char* what) {
  Line().add("case", index).add_text("broken", what);
  return false;
}

// Reads a block of the file into the pool; null if it does not fit or the file ends.
uint8_t* load(Pool& memory, HostFile& file, size_t bytes, size_t shift = 0) {
  uint8_t* block = memory.take(bytes, shift);
  return block != nullptr && file.read(block, bytes) ? block : nullptr;
}

bool read_case(uint32_t index, HostFile& file, Pool& memory, Case* out) {
  CaseHeader& header = out->header;
  if (!file.read(&header, sizeof(header))) {
    return broken(index, "cases.bin is too short");
  }
  const uint32_t operands = header.num_inputs + header.num_outputs;
  if (header.num_inputs > kMaxOperands || header.num_outputs > kMaxOperands ||
      operands > kMaxOperands) {
    return broken(index, "too many inputs and outputs");
  }
  if (!file.read(out->sizes, operands * sizeof(uint32_t))) {
    return broken(index, "cases.bin is too short");
  }
  out->payload = load(memory, file, header.payload_size, header.payload_shift % 16);
  bool complete = out->payload != nullptr;
  for (uint32_t i = 0; complete && i < operands; ++i) {
    uint8_t* block = load(memory, file, out->sizes[i]);
    complete = block != nullptr;
    if (i < header.num_inputs) {
      out->inputs[i] = block;
    } else {
      out->expected[i - header.num_inputs] = block;
      out->outputs[i - header.num_inputs] = complete ? memory.take(out->sizes[i]) : nullptr;
      complete = out->outputs[i - header.num_inputs] != nullptr;
    }
  }
  return complete || broken(index, "case does not fit in the pool, or cases.bin is too short");
}

// Replaces a .pte by its payload, and the program's operands by the delegate's.
bool open_program(uint32_t index, Case* current) {
  static pte::ProgramReader program;
  CaseHeader& header = current->header;
  const Status status =
      pte::ProgramReader::open(current->payload, header.payload_size, &program, "forward");
  if (!status.ok()) {
    report_status(status);
    return broken(index, "not a program");
  }
  if (program.num_inputs() != header.num_inputs || program.num_outputs() != header.num_outputs ||
      program.num_delegate_inputs() > kMaxOperands || program.num_delegate_outputs() > 1 ||
      header.num_outputs > 1) {
    return broken(index, "inputs or outputs differ from the program's");
  }
  const Case given = *current;
  for (uint32_t i = 0; i < program.num_delegate_inputs(); ++i) {
    current->inputs[i] = given.inputs[program.delegate_input(i)];
    current->sizes[i] = given.sizes[program.delegate_input(i)];
  }
  for (uint32_t i = 0; i < header.num_outputs; ++i) {
    current->sizes[program.num_delegate_inputs() + i] = given.sizes[given.header.num_inputs + i];
  }
  current->header.num_inputs = program.num_delegate_inputs();
  current->payload = static_cast<const uint8_t*>(program.payload());
  current->header.payload_size = static_cast<uint32_t>(program.payload_size());
  current->options.constants = program.constants();
  return true;
}

bool sizes_match(const Case& current, const Plan& plan) {
  bool match = plan.num_inputs() == current.header.num_inputs &&
               plan.num_outputs() == current.header.num_outputs;
  for (uint32_t i = 0; match && i < plan.num_inputs(); ++i) {
    match = plan.input(i).nbytes == current.sizes[i];
  }
  for (uint32_t i = 0; match && i < plan.num_outputs(); ++i) {
    match = plan.output(i).nbytes == current.sizes[current.header.num_inputs + i];
  }
  return match;
}

// Compares output `i` and the guard behind it; reports the first difference.
bool output_matches(uint32_t index, const Case& current, uint32_t i) {
  const auto* got = static_cast<const uint8_t*>(current.outputs[i]);
  const uint32_t size = current.sizes[current.header.num_inputs + i];
  uint32_t first = size;
  uint32_t count = 0;
  for (uint32_t k = size; k > 0; --k) {
    if (got[k - 1] != current.expected[i][k - 1]) {
      first = k - 1;
      ++count;
    }
  }
  if (count != 0) {
    Line()
        .add("case", index)
        .add("output", i)
        .add("byte", first)
        .add("got", got[first])
        .add("expected", current.expected[i][first])
        .add("different_bytes", count);
    return false;
  }
  for (uint32_t k = size; k < size + kGuardBytes; ++k) {
    if (got[k] != kGuard) {
      Line().add("case", index).add("output", i).add("overrun_at", k);
      return false;
    }
  }
  return true;
}

bool execute_and_compare(uint32_t index, const Case& current, Plan* plan, uint8_t* arena,
                         size_t arena_bytes, uint8_t poison, uint32_t* instructions) {
  std::memset(arena, poison, arena_bytes);
  std::memset(arena + arena_bytes, kGuard, kGuardBytes);
  for (uint32_t i = 0; i < current.header.num_outputs; ++i) {
    const uint32_t size = current.sizes[current.header.num_inputs + i];
    std::memset(current.outputs[i], poison, size);
    std::memset(static_cast<uint8_t*>(current.outputs[i]) + size, kGuard, kGuardBytes);
  }
  InstructionCounter counter;
  counter.start();
  plan->execute(current.inputs, current.outputs);
  *instructions = counter.stop();
  bool passed = true;
  for (uint32_t i = 0; i < current.header.num_outputs; ++i) {
    passed = output_matches(index, current, i) && passed;
  }
  for (size_t k = 0; k < kGuardBytes; ++k) {
    if (arena[arena_bytes + k] != kGuard) {
      Line().add("case", index).add_text("broken", "arena overrun");
      return false;
    }
  }
  return passed;
}

bool expect_status(uint32_t index, const Case& current, const Status& status) {
  if (static_cast<uint32_t>(status.code) == current.header.expected_code) {
    return true;
  }
  report_status(status);
  Line()
      .add("case", index)
      .add("code", static_cast<uint32_t>(status.code))
      .add("expected_code", current.header.expected_code);
  return false;
}

bool run_case(uint32_t index, const Case& current, Pool& memory) {
  MemoryNeeds needs;
  Status status =
      memory_needs(current.payload, current.header.payload_size, &needs, current.options);
  if (!status.ok()) {
    return expect_status(index, current, status);
  }
  uint8_t* persistent = memory.take(needs.persistent_bytes);
  uint8_t* arena = memory.take(needs.arena_bytes, current.header.arena_shift % 16);
  if (persistent == nullptr || arena == nullptr) {
    return broken(index, "case does not fit in the pool");
  }
  Plan* plan = nullptr;
  status = Plan::create(current.payload, current.header.payload_size, persistent,
                        needs.persistent_bytes, arena, needs.arena_bytes, &plan, current.options);
  if (!status.ok() || current.header.expected_code != 0) {
    return expect_status(index, current, status);
  }
  if (!sizes_match(current, *plan)) {
    return broken(index, "inputs or outputs differ from the payload's");
  }
  uint32_t instructions = 0;
  uint32_t again = 0;
  const bool passed =
      execute_and_compare(index, current, plan, arena, needs.arena_bytes, 0xA5, &instructions) &&
      execute_and_compare(index, current, plan, arena, needs.arena_bytes, 0x5A, &again);
  Line line;
  line.add("case", index)
      .add("instructions", instructions)
      .add("instructions_again", again)
      .add("arena_bytes", needs.arena_bytes)
      .add("persistent_bytes", needs.persistent_bytes);
  if (plan->num_steps() > 0) {
    line.add_text("kernel", plan->step_kernel(0));
  }
  return passed;
}

bool run() {
  HostFile file("cases.bin", HostFile::Mode::kRead);
  uint32_t header[2] = {0, 0};
  if (!file.is_open() || !file.read(header, sizeof(header)) || header[0] != kMagic) {
    Line().add_text("broken", "cannot read cases.bin");
    return false;
  }
  static Case current;
  uint32_t passed = 0;
  for (uint32_t index = 0; index < header[1]; ++index) {
    Pool memory;
    if (!read_case(index, file, memory, &current)) {
      break;  // the place of the next case is unknown
    }
    current.options = Options();
    if (current.header.isa != 0) {
      current.options.isa = isa_name(static_cast<Isa>(current.header.isa));
    }
    const bool opened = current.header.is_program == 0 || open_program(index, &current);
    const bool ok = opened && run_case(index, current, memory);
    Line().add("case", index).add("passed", ok);
    passed += ok ? 1 : 0;
  }
  Line().add("cases", header[1]).add("passed", passed).add("stack_bytes", stack_used());
  return passed == header[1];
}

}  // namespace
}  // namespace fused_quant::firmware

int main() {
  using namespace fused_quant::firmware;
  Line().add_text("image", "fq_tester").add_text("board", FQ_BOARD_NAME);
  return verdict(run());
}
