// SPDX-License-Identifier: BSD-3-Clause
#include "measure.h"

#include "board.h"
#include "stack_pattern.h"

extern "C" {
extern uint32_t fq_stack_bottom[];
extern uint32_t fq_stack_top[];
}

namespace fused_quant::firmware {
namespace {

uint32_t ticks() { return *reinterpret_cast<volatile const uint32_t*>(kCounterAddress); }

}  // namespace

// start() and elapsed() are not inlined, so that every measurement has the same instructions around
// the measured code.
InstructionCounter::InstructionCounter() {
  start();
  overhead_ = elapsed();
}

__attribute__((noinline)) void InstructionCounter::start() { start_ = ticks(); }

// Exact after rounding: the two readings err by less than one tick together, and an instruction is
// 3.2 ticks on MPS2.
__attribute__((noinline)) uint32_t InstructionCounter::elapsed() {
  const uint32_t passed = ticks() - start_;
  constexpr uint64_t kScale = uint64_t{kNanosecondsPerInstruction} * kCounterMHz;
  static_assert(kScale >= 2000, "a tick must be at most half an instruction");
  return static_cast<uint32_t>((uint64_t{passed} * 1000 + kScale / 2) / kScale);
}

uint32_t InstructionCounter::stop() { return elapsed() - overhead_; }

void repaint_stack() {
  uint32_t* limit;
  asm volatile("mov %0, sp" : "=r"(limit));
  // This function calls nothing, so all below its stack pointer is free.
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
