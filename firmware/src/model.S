// SPDX-License-Identifier: BSD-3-Clause
//
// The ExecuTorch program, in flash, aligned as it must be to run in place.
  .section .fq_model, "a", %progbits
  .balign 16
  .global fq_model_start
  .global fq_model_end
fq_model_start:
  .incbin FQ_MODEL
fq_model_end:
