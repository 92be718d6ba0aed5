# SPDX-License-Identifier: BSD-3-Clause
# Arm MPS2 AN385: Cortex-M3 (ARMv7-M, no floating point unit).
set(FQ_BOARD mps2-an385)
set(FQ_CPU_FLAGS "-mcpu=cortex-m3 -mthumb -mfloat-abi=soft")
include("${CMAKE_CURRENT_LIST_DIR}/../arch/arm_m/mps2.cmake")
