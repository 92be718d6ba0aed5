# SPDX-License-Identifier: BSD-3-Clause
# BBC micro:bit: Cortex-M0 (ARMv6-M), nRF51822 with 256 KB of flash and 16 KB of RAM. No MPU.
set(FQ_BOARD microbit)
set(FQ_CPU_FLAGS "-mcpu=cortex-m0 -mthumb -mfloat-abi=soft")
set(FQ_FLASH 0x00000000 18)
set(FQ_RAM 0x20000000 14)
set(FQ_PERIPHERALS 0x40000000 20)
# SysTick: 24 bits, 16 MHz.
set(FQ_COUNTER_ADDRESS 0xE000E018)
set(FQ_COUNTER_MHZ 16)
set(FQ_TESTER_POOL 8192)
include("${CMAKE_CURRENT_LIST_DIR}/../arch/arm_m/toolchain.cmake")
