// SPDX-License-Identifier: BSD-3-Clause
//
// The one way to include the generated schema: flatbuffers' assertions are switched off, because
// the loader verifies a payload before it reads it and the core may not depend on assert().
#pragma once

#ifndef FLATBUFFERS_ASSERT
#define FLATBUFFERS_ASSERT(condition) static_cast<void>(0)
#endif

#include "fused_quant_generated.h"

static_assert(FLATBUFFERS_LITTLEENDIAN, "multipliers, shifts and constants are used in place");
