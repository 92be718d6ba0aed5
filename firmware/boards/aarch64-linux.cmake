# SPDX-License-Identifier: BSD-3-Clause
# 64-bit Arm Linux: the images as static programs, under QEMU's user mode emulation.
set(FQ_BOARD aarch64-linux)
set(FQ_TESTER_POOL 3145728)
include("${CMAKE_CURRENT_LIST_DIR}/../arch/linux/toolchain.cmake")
