// SPDX-License-Identifier: BSD-3-Clause
//
// The table of this build's kernels, made from kernels.inc: declarations, then rows. An image for
// one program compiles this file again with FUSED_QUANT_KERNELS naming a shorter list.

#include "op.h"

#ifndef FUSED_QUANT_KERNELS
#define FUSED_QUANT_KERNELS "kernels/kernels.inc"
#endif

namespace fused_quant {

#define FQ_KERNEL(op, dtype, isa, function)                                        \
  Status prepare_##op(const OpContext& context, void* params, Prepared* prepared); \
  void function(const Step& step);
#include FUSED_QUANT_KERNELS
#undef FQ_KERNEL

namespace {

constexpr Kernel kKernels[] = {
#define FQ_KERNEL(op, dtype, isa, function) \
  {schema::OpCode_##op, schema::DType_##dtype, Isa::isa, prepare_##op, function, #op, #function},
#include FUSED_QUANT_KERNELS
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
