// SPDX-License-Identifier: BSD-3-Clause
//
// Instruction sets a kernel may be written for. Adding one: an enumerator, a row of the table in
// isa.cpp, and a file stem in runtime/CMakeLists.txt.
#pragma once

#include <cstdint>

#include "status.h"

namespace fused_quant {

// Named as in kernels.inc and in the stems of kernel files. Ordered: a request for one allows
// itself and everything before it.
enum class Isa : uint8_t {
  scalar = 0,
};

// The name used in kernels.inc, in options and in reports; never null.
const char* isa_name(Isa isa);

// True if this processor runs `isa` and this build contains kernels for it.
bool isa_available(Isa isa);

// The best instruction set to use. `request` null or empty: the best available one. Otherwise the
// one of that name, or kNotSupported if the name is unknown or cannot run here.
Status select_isa(const char* request, Isa* isa);

}  // namespace fused_quant
