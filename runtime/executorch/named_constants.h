// SPDX-License-Identifier: BSD-3-Clause
//
// The constants that a payload shares with others, out of the named data of the ExecuTorch program.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/core/named_data_map.h>

#include <cstddef>

#include "constant_source.h"

namespace fused_quant {

// Fetches each key once, when it is first asked for, and holds its buffer. The list itself, and an
// aligned copy of data at an odd address, live in memory of the allocator; nothing else is taken.
// Keys are not copied: they lie in the payload, which outlives this.
class NamedConstants {
 public:
  // `map` may be null: then there is nothing under any key.
  NamedConstants(const executorch::runtime::NamedDataMap* map,
                 executorch::runtime::MemoryAllocator* allocator)
      : map_(map), allocator_(allocator) {}
  ~NamedConstants() { release(); }
  NamedConstants(const NamedConstants&) = delete;
  NamedConstants& operator=(const NamedConstants&) = delete;

  ConstantSource source() { return {find, this}; }

  // Why a key could not be had, if not for its absence; Ok otherwise.
  executorch::runtime::Error error() const { return error_; }

  // Gives the buffers back. Nothing may read the constants any more.
  void release();

 private:
  struct Node;

  static ConstantBytes find(void* context, const char* key, size_t key_length);
  ConstantBytes fetch(const char* key, size_t key_length);

  const executorch::runtime::NamedDataMap* map_;
  executorch::runtime::MemoryAllocator* allocator_;
  Node* head_ = nullptr;
  executorch::runtime::Error error_ = executorch::runtime::Error::Ok;
};

}  // namespace fused_quant
