# SPDX-License-Identifier: BSD-3-Clause
#
# What the Arm boards share. Their files in firmware/boards set first: FQ_BOARD, FQ_CPU_FLAGS, the
# regions FQ_FLASH, FQ_RAM and FQ_PERIPHERALS (base address, log2 of the bytes), the counter and
# FQ_TESTER_POOL. Debian packages: gcc-arm-none-eabi libnewlib-arm-none-eabi
# libstdc++-arm-none-eabi-newlib.
set(FQ_ARCH arm_m)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_ASM_COMPILER arm-none-eabi-gcc)
include("${CMAKE_CURRENT_LIST_DIR}/../bare_metal.cmake")
