# SPDX-License-Identifier: BSD-3-Clause
# Arm MPS3 AN547: Cortex-M55 (ARMv8.1-M with Helium). Boots in the secure state. Code is in the ITCM.
set(FQ_BOARD mps3-an547)
set(FQ_CPU_FLAGS "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard -mfpu=auto")
set(FQ_FLASH 0x00000000 19)
set(FQ_RAM 0x31000000 22)
set(FQ_PERIPHERALS 0x59000000 22)
set(FQ_COUNTER_ADDRESS 0x59302018)
set(FQ_COUNTER_MHZ 20)
set(FQ_TESTER_POOL 3145728)
include("${CMAKE_CURRENT_LIST_DIR}/../arch/arm_m/toolchain.cmake")
