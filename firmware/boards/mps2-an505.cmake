# SPDX-License-Identifier: BSD-3-Clause
# Arm MPS2 AN505: Cortex-M33 (ARMv8-M Mainline with DSP and single precision FPU). Boots in the
# secure state, so all addresses are the secure aliases.
set(FQ_BOARD mps2-an505)
set(FQ_CPU_FLAGS "-mcpu=cortex-m33 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16")
set(FQ_FLASH 0x10000000 22)
set(FQ_RAM 0x38000000 21)
set(FQ_PERIPHERALS 0x50000000 22)
set(FQ_COUNTER_ADDRESS 0x50302018)
set(FQ_COUNTER_MHZ 20)
set(FQ_TESTER_POOL 1572864)
include("${CMAKE_CURRENT_LIST_DIR}/../arch/arm_m/toolchain.cmake")
