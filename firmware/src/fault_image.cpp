// SPDX-License-Identifier: BSD-3-Clause
//
// fq_fault: fails in the way its command line names, so that tests can show that board.py notices.
// "float" is the exception: it computes with floats from the first instruction on and passes.
#include <cstdint>
#include <cstring>

#include "board.h"
#include "report.h"
#include "semihosting.h"

namespace {

using fused_quant::firmware::Line;

volatile float numerator = 1.0f;
volatile float denominator = 3.0f;

// Never returns: every level takes more stack. The store after the call forbids a tail call.
__attribute__((noinline)) uint32_t descend(uint32_t level) {
  volatile uint32_t frame[16];
  frame[0] = level == UINT32_MAX ? level : descend(level + 1);
  return frame[0];
}

// As a core is at reset; the next float instruction faults.
void switch_fpu_off() {
  *reinterpret_cast<volatile uint32_t*>(0xE000ED88u) = 0;
  asm volatile("dsb\n isb" ::: "memory");
}

bool computes_floats() {
  const float quotient = numerator / denominator;
  uint32_t bits;
  std::memcpy(&bits, &quotient, sizeof(bits));
  Line().add_hex("quotient", bits);
  return bits == 0x3EAAAAABu;  // 1/3 rounded to nearest even
}

bool fail_as(const char* kind) {
  if (std::strcmp(kind, "float") == 0) {
    return computes_floats();
  }
  if (std::strcmp(kind, "float_off") == 0) {
    switch_fpu_off();
    return computes_floats();
  }
  if (std::strcmp(kind, "read") == 0) {
    using fused_quant::firmware::kFlash;
    const auto* behind_flash = reinterpret_cast<volatile const uint32_t*>(
        static_cast<uintptr_t>(kFlash.base + (1u << kFlash.log2_bytes)));
    return *behind_flash == 0;
  }
  if (std::strcmp(kind, "null") == 0) {
    *static_cast<volatile uint32_t*>(nullptr) = 1;  // the vector table, or nothing
  }
  if (std::strcmp(kind, "execute") == 0) {
    static volatile uint16_t code[2] = {0x4770, 0x4770};  // "bx lr" in RAM
    reinterpret_cast<void (*)()>(reinterpret_cast<uintptr_t>(code) | 1)();
  }
  if (std::strcmp(kind, "undefined") == 0) {
    asm volatile("udf #0");
  }
  if (std::strcmp(kind, "stack") == 0) {
    return descend(0) == 0;
  }
  if (std::strcmp(kind, "hang") == 0) {
    for (;;) {
      asm volatile("");
    }
  }
  if (std::strcmp(kind, "silent") == 0) {
    fused_quant::firmware::exit_image(fused_quant::firmware::kExitOk);
  }
  return false;
}

}  // namespace

int main() {
  char kind[32] = "";
  Line().add_text("image", "fq_fault").add_text("board", FQ_BOARD_NAME);
  return fused_quant::firmware::verdict(fused_quant::firmware::command_line(kind, sizeof(kind)) &&
                                        fail_as(kind));
}
