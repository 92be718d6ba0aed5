// SPDX-License-Identifier: BSD-3-Clause
#include "measure.h"

#include "machine.h"
#include "stack_pattern.h"

extern "C" {
extern uint32_t fq_stack_bottom[];
extern uint32_t fq_stack_top[];
}

namespace fused_quant::firmware {
namespace {

// QEMU runs with -icount shift=7: an instruction takes 2^7 ns of emulated time.
constexpr uint32_t kNanosecondsPerInstruction = 128;

}  // namespace

// start() and elapsed() are not inlined, so that every measurement has the same instructions around
// the measured code.
InstructionCounter::InstructionCounter() {
  start_counter();
  start();
  overhead_ = elapsed();
}

__attribute__((noinline)) void InstructionCounter::start() { start_ = read_counter(); }

// Exact after rounding: the two readings err by less than one tick together, and an instruction is
// at least two ticks.
__attribute__((noinline)) uint32_t InstructionCounter::elapsed() {
  const uint32_t passed = (read_counter() - start_) & kCounterMask;
  constexpr uint64_t kScale = uint64_t{kNanosecondsPerInstruction} * kCounterMHz;
  static_assert(kScale >= 2000, "a tick must be at most half an instruction");
  return static_cast<uint32_t>((uint64_t{passed} * 1000 + kScale / 2) / kScale);
}

uint32_t InstructionCounter::stop() { return elapsed() - overhead_; }

void repaint_stack() {
  // This function calls nothing, so all below its frame is free. The compiler may push registers
  // after the stack pointer is read (it does for Armv8.1-M loops, which need LR): 16 words at most.
  const uint32_t* limit = stack_pointer() - 16;
  for (volatile uint32_t* word = fq_stack_bottom; word < limit; ++word) {
    *word = FQ_STACK_PATTERN;
  }
}

size_t stack_used() {
  const volatile uint32_t* word = fq_stack_bottom;
  while (word < fq_stack_top && *word == FQ_STACK_PATTERN) {
    ++word;
  }
  return static_cast<size_t>(fq_stack_top - word) * sizeof(uint32_t);
}

size_t stack_reserved() {
  return static_cast<size_t>(fq_stack_top - fq_stack_bottom) * sizeof(uint32_t);
}

}  // namespace fused_quant::firmware
