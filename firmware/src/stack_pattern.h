// SPDX-License-Identifier: BSD-3-Clause
//
// The word unused stack is filled with; read by assembly too.
#pragma once

#define FQ_STACK_PATTERN 0x5AC3F00D
