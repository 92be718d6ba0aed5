// SPDX-License-Identifier: BSD-3-Clause
//
// Instruction sets a kernel may be written for. Adding one: an enumerator, a row of the table in
// isa.cpp, and a file stem in runtime/CMakeLists.txt.
#pragma once

#include <cstdint>

#include "status.h"

namespace fused_quant {

// Named as in kernels.inc and in the stems of kernel files. A request for one allows itself,
// scalar, and everything before it of the same architecture.
enum class Isa : uint8_t {
  scalar = 0,
  // Operations of Cadence's HiFi 4, see kernels/hifi/hifi.h. Chosen where it is asked for:
  // elsewhere than on such a core they are emulated.
  xtensa_hifi = 1,
};

// The name used in kernels.inc, in options and in reports; never null.
const char* isa_name(Isa isa);

// True if this processor runs `isa` and this build contains kernels for it.
bool isa_available(Isa isa);

// True if kernels of `isa` may run where `requested` was asked for.
bool isa_allows(Isa requested, Isa isa);

// The best instruction set to use. `request` null or empty: the best one that this
// processor has instructions for. Otherwise the
// one of that name, or kNotSupported if the name is unknown or cannot run here.
Status select_isa(const char* request, Isa* isa);

}  // namespace fused_quant
