// SPDX-License-Identifier: BSD-3-Clause
//
// The table of this build's kernels, made from kernels.inc: declarations, then rows.

#include "op.h"

namespace fused_quant {

#define FQ_KERNEL(op, dtype, isa, function)                                        \
  Status prepare_##op(const OpContext& context, void* params, Prepared* prepared); \
  void function(const Step& step);
#include "kernels/kernels.inc"
#undef FQ_KERNEL

namespace {

constexpr Kernel kKernels[] = {
#define FQ_KERNEL(op, dtype, isa, function) \
  {schema::OpCode_##op, schema::DType_##dtype, Isa::isa, prepare_##op, function, #op, #function},
#include "kernels/kernels.inc"
#undef FQ_KERNEL
};

}  // namespace

uint32_t num_kernels() { return sizeof(kKernels) / sizeof(kKernels[0]); }

const Kernel& kernel_at(uint32_t index) { return kKernels[index]; }

const Kernel* find_kernel(schema::OpCode opcode, schema::DType dtype, Isa isa) {
  for (const Kernel& kernel : kKernels) {
    if (kernel.opcode == opcode && kernel.dtype == dtype && isa_allows(isa, kernel.isa) &&
        isa_available(kernel.isa)) {
      return &kernel;
    }
  }
  return nullptr;
}

}  // namespace fused_quant
