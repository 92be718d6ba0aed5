// SPDX-License-Identifier: BSD-3-Clause
//
// Any exception is a failure: say what and where, and leave with a code of its own.
#include <cstdint>

#include "report.h"
#include "semihosting.h"

extern "C" {
extern uint32_t fq_stack_bottom[];
extern uint32_t fq_stack_top[];

[[noreturn]] void fq_report_fault(const uint32_t* frame, uint32_t exception);

// Referenced by libgcc's division routines; nothing unwinds here, so its tables are dropped.
void __aeabi_unwind_cpp_pr0();
void __aeabi_unwind_cpp_pr0() {}
}

namespace {

constexpr uintptr_t kConfigurableFaultStatus = 0xE000ED28u;
constexpr uintptr_t kHardFaultStatus = 0xE000ED2Cu;
constexpr uintptr_t kMemoryFaultAddress = 0xE000ED34u;

uint32_t read_register(uintptr_t address) {
  return *reinterpret_cast<volatile const uint32_t*>(address);
}

}  // namespace

void fq_report_fault(const uint32_t* frame, uint32_t exception) {
  using fused_quant::firmware::Line;
  {
    Line line;
    line.add("fault", exception)
        .add_hex("cfsr", read_register(kConfigurableFaultStatus))
        .add_hex("hfsr", read_register(kHardFaultStatus))
        .add_hex("mmfar", read_register(kMemoryFaultAddress))
        .add_hex("sp", static_cast<uint32_t>(reinterpret_cast<uintptr_t>(frame)));
    // Without room for the eight stacked words the frame was never written.
    if (frame >= fq_stack_bottom && frame + 8 <= fq_stack_top) {
      line.add_hex("lr", frame[5]).add_hex("pc", frame[6]);
    } else {
      line.add_text("cause", "stack overflow");
    }
  }
  Line().add_text("verdict", "fault");
  fused_quant::firmware::exit_image(fused_quant::firmware::kExitFault);
}
