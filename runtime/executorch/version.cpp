// SPDX-License-Identifier: BSD-3-Clause

#include <stddef.h>

#include "fused_quant_backend.h"

namespace {

#define FUSED_QUANT_BUILT_FOR "fused_quant.built_for_executorch="

// One string holds both the mark and the version: load_runtime() in Python looks for the mark in
// the file to learn the version before it opens the library.
__attribute__((used)) constexpr char kBuiltFor[] =
    FUSED_QUANT_BUILT_FOR FUSED_QUANT_EXECUTORCH_VERSION;
constexpr size_t kMarkLength = sizeof(FUSED_QUANT_BUILT_FOR) - 1;

}  // namespace

const char* fused_quant_version(void) { return FUSED_QUANT_VERSION; }

const char* fused_quant_executorch_version(void) { return kBuiltFor + kMarkLength; }
