# SPDX-License-Identifier: BSD-3-Clause
# What the MPS2 boards with a Cortex-M3, M4 or M7 share: memory, and the FPGAIO counter of the
# 25 MHz system clock.
set(FQ_FLASH 0x00000000 22)
set(FQ_RAM 0x20000000 22)
set(FQ_PERIPHERALS 0x40000000 20)
set(FQ_COUNTER_ADDRESS 0x40028018)
set(FQ_COUNTER_MHZ 25)
set(FQ_TESTER_POOL 3145728)
include("${CMAKE_CURRENT_LIST_DIR}/toolchain.cmake")
