// SPDX-License-Identifier: BSD-3-Clause
//
// fq_runner: a method of one fully delegated .pte in flash, run in place. Reads every inference's
// inputs from the host file inputs.bin (dense program inputs one after the other), writes
// outputs.bin likewise. Command line: <number of inferences>.
#include <cstdint>
#include <cstring>

#include "core_report.h"
#include "layout_check.h"
#include "measure.h"
#include "model_config.h"
#include "plan.h"
#include "pte/program_reader.h"
#include "report.h"
#include "semihosting.h"

extern "C" {
extern const uint8_t fq_model_start[];
extern const uint8_t fq_model_end[];
}

namespace fused_quant::firmware {
namespace {

constexpr size_t at_least(size_t bytes, size_t minimum) {
  return bytes < minimum ? minimum : bytes;
}

// Exactly what this model needs, so that the image's RAM figure is the model's. model_config.h
// comes from the .pte.
#define FQ_SECTION(name) alignas(16) __attribute__((section(name))) uint8_t
FQ_SECTION(".fq_arena") arena[at_least(FQ_ARENA_BYTES, 16)];
FQ_SECTION(".fq_persistent") persistent[at_least(FQ_PERSISTENT_BYTES, 16)];
FQ_SECTION(".fq_io") input_bytes[at_least(FQ_INPUT_BYTES, 16)];
FQ_SECTION(".fq_io") output_bytes[at_least(FQ_OUTPUT_BYTES, 16)];

const void* plan_inputs[FQ_DELEGATE_INPUTS + 1];
void* plan_outputs[FQ_DELEGATE_OUTPUTS + 1];
void* program_inputs[FQ_PROGRAM_INPUTS + 1];
void* program_outputs[FQ_PROGRAM_OUTPUTS + 1];

pte::ProgramReader program;
Plan* plan = nullptr;

size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

bool fail(const char* what, int64_t got, int64_t expected) {
  report_status(make_status(Code::kInvalidProgram, what, -1, got, expected));
  return false;
}

Options options() {
  Options result;
  result.constants = program.constants();
  return result;
}

Status load() {
  const size_t size = static_cast<size_t>(fq_model_end - fq_model_start);
  FQ_RETURN_IF_ERROR(pte::ProgramReader::open(fq_model_start, size, &program, FQ_METHOD));
  return Plan::create(program.payload(), program.payload_size(), persistent, sizeof(persistent),
                      arena, sizeof(arena), &plan, options());
}

// Gives every program input and output its place, and the delegate's arguments theirs.
bool bind_inputs() {
  if (plan->num_inputs() != program.num_delegate_inputs() ||
      plan->num_inputs() != FQ_DELEGATE_INPUTS || program.num_inputs() != FQ_PROGRAM_INPUTS) {
    return fail("number of inputs", plan->num_inputs(), program.num_delegate_inputs());
  }
  size_t offset = 0;
  for (uint32_t i = 0; i < program.num_inputs(); ++i) {
    program_inputs[i] = input_bytes + offset;
    offset += aligned(program.input(i).nbytes);
  }
  if (offset > FQ_INPUT_BYTES) {
    return fail("bytes of inputs", FQ_INPUT_BYTES, static_cast<int64_t>(offset));
  }
  for (uint32_t i = 0; i < plan->num_inputs(); ++i) {
    const uint32_t source = program.delegate_input(i);
    if (!same_layout(plan->input(i), program.input(source))) {
      return fail("dtype, shape or dim order of delegate input", i, source);
    }
    plan_inputs[i] = program_inputs[source];
  }
  return true;
}

bool bind_outputs() {
  if (plan->num_outputs() != program.num_delegate_outputs() ||
      plan->num_outputs() != FQ_DELEGATE_OUTPUTS || program.num_outputs() != FQ_PROGRAM_OUTPUTS) {
    return fail("number of outputs", plan->num_outputs(), program.num_delegate_outputs());
  }
  size_t offset = 0;
  for (uint32_t i = 0; i < program.num_outputs(); ++i) {
    const uint32_t source = program.output_source(i);
    if (!same_layout(plan->output(source), program.output(i))) {
      return fail("dtype, shape or dim order of delegate output", source, i);
    }
    // A value the program returns twice is computed once.
    if (plan_outputs[source] == nullptr) {
      plan_outputs[source] = output_bytes + offset;
      offset += aligned(program.output(i).nbytes);
    }
    program_outputs[i] = plan_outputs[source];
  }
  return offset <= FQ_OUTPUT_BYTES ||
         fail("bytes of outputs", FQ_OUTPUT_BYTES, static_cast<int64_t>(offset));
}

bool read_inputs(HostFile& file) {
  for (uint32_t i = 0; i < program.num_inputs(); ++i) {
    if (!file.read(program_inputs[i], program.input(i).nbytes)) {
      return fail("inputs.bin is too short", -1, static_cast<int64_t>(program.input(i).nbytes));
    }
  }
  return true;
}

bool write_outputs(HostFile& file) {
  for (uint32_t i = 0; i < program.num_outputs(); ++i) {
    if (!file.write(program_outputs[i], program.output(i).nbytes)) {
      return fail("cannot write outputs.bin", -1, static_cast<int64_t>(program.output(i).nbytes));
    }
  }
  return true;
}

struct Totals {
  uint32_t instructions_min = UINT32_MAX;
  uint32_t instructions_max = 0;
  size_t stack = 0;
};

bool run_all(uint32_t count, Totals* totals) {
  HostFile inputs("inputs.bin", HostFile::Mode::kRead);
  HostFile outputs("outputs.bin", HostFile::Mode::kWrite);
  if (!inputs.is_open() || !outputs.is_open()) {
    return fail("cannot open inputs.bin or outputs.bin", inputs.is_open(), 1);
  }
  InstructionCounter counter;
  const uint32_t step = count / 100 + 1;
  for (uint32_t n = 0; n < count; ++n) {
    if (!read_inputs(inputs)) {
      return false;
    }
    std::memset(output_bytes, 0xCD, sizeof(output_bytes));
    repaint_stack();
    counter.start();
    plan->execute(plan_inputs, plan_outputs);
    const uint32_t instructions = counter.stop();
    const size_t stack = stack_used();
    totals->stack = stack > totals->stack ? stack : totals->stack;
    if (instructions < totals->instructions_min) totals->instructions_min = instructions;
    if (instructions > totals->instructions_max) totals->instructions_max = instructions;
    if (!write_outputs(outputs)) {
      return false;
    }
    if ((n + 1) % step == 0) {
      Line().add("done", n + 1);
    }
  }
  return outputs.close();
}

bool run() {
  char arguments[32] = "";
  if (!command_line(arguments, sizeof(arguments))) {
    return fail("cannot read the command line", 0, 0);
  }
  const uint32_t count = parse_number(arguments);
  if (count == 0) {
    return fail("number of inferences on the command line", 0, 1);
  }
  InstructionCounter counter;
  repaint_stack();
  counter.start();
  const Status status = load();
  const uint32_t init_instructions = counter.stop();
  const size_t init_stack = stack_used();
  if (!status.ok()) {
    report_status(status);
    return false;
  }
  MemoryNeeds needs;
  const Status measured =
      memory_needs(program.payload(), program.payload_size(), &needs, options());
  if (!measured.ok()) {
    report_status(measured);
    return false;
  }
  if (!bind_inputs() || !bind_outputs()) {
    return false;
  }
  report_kernels(*plan);
  Totals totals;
  if (!run_all(count, &totals)) {
    return false;
  }
  Line().add("arena_bytes", needs.arena_bytes).add("persistent_bytes", needs.persistent_bytes);
  Line()
      .add("inferences", count)
      .add("init_instructions", init_instructions)
      .add("instructions_min", totals.instructions_min)
      .add("instructions_max", totals.instructions_max);
  Line()
      .add("init_stack_bytes", init_stack)
      .add("stack_bytes", totals.stack)
      .add("stack_reserved", stack_reserved());
  return true;
}

}  // namespace
}  // namespace fused_quant::firmware

int main() {
  using namespace fused_quant::firmware;
  Line().add_text("image", "fq_runner").add_text("board", FQ_BOARD_NAME);
  return verdict(run());
}
