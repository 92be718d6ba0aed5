# SPDX-License-Identifier: BSD-3-Clause
#
# Linux programs for another processor. Debian package: g++-aarch64-linux-gnu.
set(FQ_ARCH linux)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_FLAGS_INIT "-ffunction-sections -fdata-sections -ffp-contract=off")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "Flags of the Release build type")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
