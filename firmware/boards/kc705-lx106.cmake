# SPDX-License-Identifier: BSD-3-Clause
# Xtensa LX with the lx106 configuration (ESP8266) on QEMU's kc705-nommu machine, one RAM for code
# and data. No floating point unit, no 64-bit multiplication.
set(FQ_BOARD kc705-lx106)
set(FQ_RAM 0x60000000 25)
# CCOUNT, which QEMU advances by 40 a microsecond.
set(FQ_COUNTER_MHZ 40)
set(FQ_TESTER_POOL 3145728)
include("${CMAKE_CURRENT_LIST_DIR}/../arch/xtensa/toolchain.cmake")
