# SPDX-License-Identifier: BSD-3-Clause
# Code for a Cortex-M0 (ARMv6-M), run on the Cortex-M3 of an MPS2 AN385: ARMv7-M executes all of
# ARMv6-M, and no board with a Cortex-M0 that QEMU has holds the models.
set(FQ_BOARD cortex-m0)
set(FQ_CPU_FLAGS "-mcpu=cortex-m0 -mthumb -mfloat-abi=soft")
include("${CMAKE_CURRENT_LIST_DIR}/../arch/arm_m/mps2.cmake")
