// SPDX-License-Identifier: BSD-3-Clause
//
// Status: what every fallible function of the core returns. Nothing throws or aborts.
#pragma once

#include <cstdint>

namespace fused_quant {

enum class Code : uint8_t {
  kOk = 0,
  kInvalidCompatibility = 1,    // not our identifier, or a format version of another release
  kInvalidProgram = 2,          // malformed payload: index, range, size product, shape, attribute
  kOperatorMissing = 3,         // no kernel of this build runs this operator with this dtype
  kNotSupported = 4,            // a forced instruction set cannot run, or a limit of this build
  kMemoryAllocationFailed = 5,  // a memory block of the caller is too small; `expected` = bytes
  kInvalidArgument = 6,         // null or misaligned pointer of the caller
};

struct Status {
  Code code = Code::kOk;
  const char* what = "";  // static storage, never null
  int32_t where = -1;     // operator or tensor index, as `what` says; -1 = neither
  int64_t got = 0;
  int64_t expected = 0;

  constexpr bool ok() const { return code == Code::kOk; }
};

constexpr Status make_status(Code code, const char* what, int32_t where = -1, int64_t got = 0,
                             int64_t expected = 0) {
  return Status{code, what, where, got, expected};
}

}  // namespace fused_quant

// Returns the status of `expression` from the calling function when it is an error.
#define FQ_RETURN_IF_ERROR(expression)                     \
  do {                                                     \
    const ::fused_quant::Status fq_status_ = (expression); \
    if (!fq_status_.ok()) return fq_status_;               \
  } while (false)
