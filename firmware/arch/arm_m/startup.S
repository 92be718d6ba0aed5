// SPDX-License-Identifier: BSD-3-Clause
//
// Vector table, reset and fault entry, of instructions that ARMv6-M has too. Assembly, because nothing compiled may run before
// the FPU is on and the stack is painted.

#include "stack_pattern.h"

  .syntax unified
  .thumb

  .section .fq_vectors, "a", %progbits
  .align 7
  .global fq_vectors
fq_vectors:
  .word fq_stack_top
  .word fq_reset_handler
  .rept 14                 // NMI, the faults, SVCall, debug, PendSV, SysTick: all are failures here
  .word fq_fault_entry
  .endr
  .rept 64
  .word fq_fault_entry     // no interrupt is ever enabled
  .endr

  .text
  .align 2
  .global fq_reset_handler
  .type fq_reset_handler, %function
  .thumb_func
fq_reset_handler:
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
  ldr r0, =0xE000ED88      // CPACR: full access to coprocessors 10 and 11; off at reset
  ldr r1, [r0]
  ldr r2, =(0xF << 20)
  orrs r1, r2
  str r1, [r0]
#endif
#if defined(__ARM_FEATURE_MVE)
  ldr r0, =0xE000ED14      // CCR.LOB: low overhead loops
  ldr r1, [r0]
  ldr r2, =(1 << 19)
  orrs r1, r2
  str r1, [r0]
#endif
  dsb
  isb
  ldr r0, =fq_stack_bottom
  ldr r1, =fq_stack_top
  ldr r2, =FQ_STACK_PATTERN
1:
  str r2, [r0]
  adds r0, #4
  cmp r0, r1
  blo 1b

  ldr r0, =fq_data_start
  ldr r1, =fq_data_end
  ldr r2, =fq_data_load
  b 3f
2:
  ldr r3, [r2]
  str r3, [r0]
  adds r2, #4
  adds r0, #4
3:
  cmp r0, r1
  blo 2b

  ldr r0, =fq_bss_start
  ldr r1, =fq_bss_end
  movs r2, #0
  b 5f
4:
  str r2, [r0]
  adds r0, #4
5:
  cmp r0, r1
  blo 4b

  bl fq_protect_memory
  bl main
  bl fq_exit               // does not return
  b .
  .size fq_reset_handler, . - fq_reset_handler
  .ltorg

  .align 2
  .global fq_fault_entry
  .type fq_fault_entry, %function
  .thumb_func
fq_fault_entry:
  mrs r0, msp              // exception frame, if it could be stacked at all
  mrs r1, ipsr
  ldr r2, =fq_fault_stack_top
  mov sp, r2
  bl fq_report_fault       // does not return
  b .
  .size fq_fault_entry, . - fq_fault_entry
  .ltorg
