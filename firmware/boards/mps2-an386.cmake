# SPDX-License-Identifier: BSD-3-Clause
# Arm MPS2 AN386: Cortex-M4 (ARMv7E-M with DSP instructions) with a single precision FPU.
set(FQ_BOARD mps2-an386)
set(FQ_CPU_FLAGS "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16")
include("${CMAKE_CURRENT_LIST_DIR}/../arch/arm_m/mps2.cmake")
