// SPDX-License-Identifier: BSD-3-Clause
//
// Report lines about what the core says.
#pragma once

#include "plan.h"
#include "report.h"
#include "status.h"

namespace fused_quant::firmware {

inline void report_status(const Status& status) {
  Line()
      .add("code", static_cast<uint32_t>(status.code))
      .add_signed("where", status.where)
      .add_signed("got", status.got)
      .add_signed("expected", status.expected)
      .add_text("error", status.what);
}

// One line per step: the kernel that was chosen.
inline void report_kernels(const Plan& plan) {
  for (uint32_t i = 0; i < plan.num_steps(); ++i) {
    Line().add("step", i).add_text("kernel", plan.step_kernel(i));
  }
}

}  // namespace fused_quant::firmware
