// SPDX-License-Identifier: BSD-3-Clause
//
// Where a payload's shared constants come from: the program around it keeps them, once for all
// payloads that name them.
#pragma once

#include <cstddef>

namespace fused_quant {

struct ConstantBytes {
  const void* data = nullptr;  // null: there is nothing under the key
  size_t size = 0;
};

// A function instead of a table, so that a provider may read what is asked for and nothing else. It
// is called while a payload is examined and a plan is made, never afterwards, several times for the
// same key, and gives the same answer each time. The bytes must outlive the plan and be 16-byte
// aligned. `key` is not terminated by a zero.
struct ConstantSource {
  using Find = ConstantBytes (*)(void* context, const char* key, size_t key_length);

  Find find = nullptr;  // null: nothing is provided
  void* context = nullptr;
};

}  // namespace fused_quant
