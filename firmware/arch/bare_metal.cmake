# SPDX-License-Identifier: BSD-3-Clause
#
# What the toolchain files of boards without an operating system share.
set(CMAKE_SYSTEM_NAME Generic)
# The compiler's test program cannot be linked: start-up code and linker script are this project's.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# Contraction would fuse a multiplication and an addition of the float boundary operators into one
# rounding on cores with a fused multiply-add.
set(CMAKE_CXX_FLAGS_INIT
    "${FQ_CPU_FLAGS} -ffunction-sections -fdata-sections -fno-unwind-tables \
-fno-asynchronous-unwind-tables -ffp-contract=off")
set(CMAKE_ASM_FLAGS_INIT "${FQ_CPU_FLAGS}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${FQ_CPU_FLAGS}")
# Release is for speed, MinSizeRel for flash; -O3 grows the kernels without making them faster.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "Flags of the Release build type")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
