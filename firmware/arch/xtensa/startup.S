// SPDX-License-Identifier: BSD-3-Clause
//
// Start-up of an Xtensa core with the call0 calling convention: paint the stack, clear .bss, main,
// exit. The emulator has placed .data already.

#include "stack_pattern.h"

  .section .fq_entry, "ax"
  .literal_position
  .align 4
  .global fq_reset_handler
  .type fq_reset_handler, @function
fq_reset_handler:
  movi a2, fq_stack_bottom
  movi a3, fq_stack_top
  movi a4, FQ_STACK_PATTERN
1:
  s32i a4, a2, 0
  addi a2, a2, 4
  bltu a2, a3, 1b
  mov a1, a3

  movi a2, fq_bss_start
  movi a3, fq_bss_end
  movi a4, 0
  bgeu a2, a3, 3f
2:
  s32i a4, a2, 0
  addi a2, a2, 4
  bltu a2, a3, 2b
3:
  call0 main
  call0 fq_exit            // does not return
4:
  j 4b
