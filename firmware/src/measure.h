// SPDX-License-Identifier: BSD-3-Clause
//
// Exact instruction counts and stack use. Instructions, not cycles: an emulator has no pipeline.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fused_quant::firmware {

// Counts the instructions between start() and stop(), in emulated time, which QEMU advances by a
// fixed amount per instruction. One measurement may span all values of the board's counter: on MPS2
// 1.3e9 instructions, on microbit 8.1e6. On aarch64-linux, which has no such clock, counts are 0.
class InstructionCounter {
 public:
  // Measures what start() and stop() themselves cost, to be subtracted.
  InstructionCounter();

  void start();
  // Instructions since start().
  uint32_t stop();

 private:
  uint32_t elapsed();

  uint32_t start_ = 0;
  uint32_t overhead_ = 0;
};

// Fills the unused part of the stack with the pattern again.
void repaint_stack();
// Deepest use of the stack since the last painting, in bytes.
size_t stack_used();
size_t stack_reserved();

}  // namespace fused_quant::firmware
