# SPDX-License-Identifier: BSD-3-Clause
# Arm MPS2 AN500: Cortex-M7 (ARMv7E-M with DSP instructions) with a double precision FPU.
set(FQ_BOARD mps2-an500)
set(FQ_CPU_FLAGS "-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16")
include("${CMAKE_CURRENT_LIST_DIR}/../arch/arm_m/mps2.cmake")
