// SPDX-License-Identifier: BSD-3-Clause
//
// Public C interface of the ExecuTorch delegate "FusedQuantBackend". Linking the delegate registers
// it before main; a program that links it as a static library without whole-archive, or wants to
// see the outcome, calls fused_quant_register_backend().

#pragma once

#include <stdint.h>

#if defined(__GNUC__)
#define FUSED_QUANT_API __attribute__((visibility("default")))
#else
#define FUSED_QUANT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Registers the delegate with the ExecuTorch runtime, once however often it is called. Returns 0,
// or the value of executorch::runtime::Error: RegistrationAlreadyRegistered when another copy of
// the delegate holds the name, else what register_backend answered.
FUSED_QUANT_API uint32_t fused_quant_register_backend(void);

// Version of fused_quant, such as "0.1.0".
FUSED_QUANT_API const char* fused_quant_version(void);

// Version of the ExecuTorch headers the delegate was compiled with, such as "1.5.1+cpu".
FUSED_QUANT_API const char* fused_quant_executorch_version(void);

#ifdef __cplusplus
}
#endif
