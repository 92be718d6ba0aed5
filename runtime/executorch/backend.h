// SPDX-License-Identifier: BSD-3-Clause
//
// The delegate as ExecuTorch sees it. It only translates: payload bytes to a Plan at init,
// ExecuTorch tensors to pointers at execute. What runs is the core's Plan.

#pragma once

#include <executorch/runtime/backend/interface.h>

namespace fused_quant {

// Stateless, so one instance serves every delegate call of the process from any thread. Each call
// site (handle) must be executed by one thread at a time, as ExecuTorch requires of a Method.
class FusedQuantBackend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override;

  // Verifies the payload, takes persistent and arena memory from the runtime allocator (for the
  // life of the method), and builds the plan. Constants are used in place: `processed` is kept, or,
  // when its address is not 16-byte aligned, copied to aligned memory and freed. Constants that
  // payloads share are taken from the context's named data map and held until destroy.
  // After an error nothing is held but what the runtime allocator handed out, which ExecuTorch
  // takes back with the method that failed to load.
  executorch::runtime::Result<executorch::runtime::DelegateHandle*> init(
      executorch::runtime::BackendInitContext& context,
      executorch::runtime::FreeableBuffer* processed,
      executorch::runtime::ArrayRef<executorch::runtime::CompileSpec> compile_specs) const override;

  // Checks every argument, binds the pointers and walks the plan. Takes no memory.
  executorch::runtime::Error execute(
      executorch::runtime::BackendExecutionContext& context,
      executorch::runtime::DelegateHandle* handle,
      executorch::runtime::Span<executorch::runtime::EValue*> args) const override;

  void destroy(executorch::runtime::DelegateHandle* handle) const override;
};

}  // namespace fused_quant
