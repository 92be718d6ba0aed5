# SPDX-License-Identifier: BSD-3-Clause
#
# Xtensa lx106. Debian packages: gcc-xtensa-lx106 picolibc-xtensa-lx106-elf, and
# libstdc++-arm-none-eabi-newlib for the headers of the C++ library, which has no xtensa package:
# this project uses only its header-only parts.
set(FQ_ARCH xtensa)
set(CMAKE_SYSTEM_PROCESSOR xtensa)
set(CMAKE_CXX_COMPILER xtensa-lx106-elf-g++)
set(CMAKE_ASM_COMPILER xtensa-lx106-elf-gcc)
file(GLOB _newlib "/usr/include/newlib/c++/*")
list(GET _newlib -1 _newlib)
set(FQ_CPU_FLAGS "-mlongcalls -mtext-section-literals")
set(FQ_CPU_FLAGS_CXX
    "-nostdinc++ -isystem ${_newlib} -isystem ${_newlib}/arm-none-eabi/thumb/v6-m/nofp \
-isystem /usr/lib/xtensa-lx106-elf/include")
# Code and data share the one memory.
set(FQ_LINK_OPTIONS LINKER:--no-warn-rwx-segments)
include("${CMAKE_CURRENT_LIST_DIR}/../bare_metal.cmake")
string(APPEND CMAKE_CXX_FLAGS_INIT " ${FQ_CPU_FLAGS_CXX}")
