// SPDX-License-Identifier: BSD-3-Clause

#include "named_constants.h"

#include <executorch/runtime/platform/log.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "payload.h"

namespace fused_quant {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;

struct NamedConstants::Node {
  Node* next;
  const char* key;
  size_t key_length;
  FreeableBuffer buffer;
  ConstantBytes bytes;
};

void NamedConstants::release() {
  for (Node* node = head_; node != nullptr;) {
    Node* const next = node->next;
    node->~Node();  // frees the buffer; the memory of the node is the allocator's
    node = next;
  }
  head_ = nullptr;
}

ConstantBytes NamedConstants::find(void* context, const char* key, size_t key_length) {
  auto* const self = static_cast<NamedConstants*>(context);
  for (const Node* node = self->head_; node != nullptr; node = node->next) {
    if (node->key_length == key_length && std::memcmp(node->key, key, key_length) == 0) {
      return node->bytes;
    }
  }
  return self->fetch(key, key_length);
}

ConstantBytes NamedConstants::fetch(const char* key, size_t key_length) {
  if (error_ != Error::Ok) return {};
  const int length = static_cast<int>(key_length < 256 ? key_length : 256);
  if (map_ == nullptr) {
    ET_LOG(Error, "FusedQuantBackend: no named data in this program, \"%.*s\" needed", length, key);
    return {};
  }
  Result<FreeableBuffer> found = map_->get_data(std::string_view(key, key_length));
  if (!found.ok()) {
    ET_LOG(Error, "FusedQuantBackend: named data \"%.*s\": error 0x%x", length, key,
           static_cast<unsigned>(found.error()));
    if (found.error() != Error::NotFound) error_ = found.error();
    return {};
  }
  const Result<const void*> data = found->data_safe();
  if (!data.ok()) {
    error_ = data.error();
    return {};
  }
  ConstantBytes bytes{*data, found->size()};
  void* const memory = allocator_->allocate(sizeof(Node), alignof(Node));
  if (memory == nullptr) {
    ET_LOG(Error, "FusedQuantBackend: no memory to hold named data: %zu bytes needed",
           sizeof(Node));
    error_ = Error::MemoryAllocationFailed;
    return {};
  }
  head_ = new (memory) Node{head_, key, key_length, std::move(*found), bytes};
  if (is_aligned(bytes.data, kAlignment)) return bytes;
  // A program that was itself loaded to an odd address.
  void* const copy = allocator_->allocate(bytes.size, kAlignment);
  if (copy == nullptr) {
    ET_LOG(Error, "FusedQuantBackend: no memory for an aligned copy of named data: %zu bytes",
           bytes.size);
    error_ = Error::MemoryAllocationFailed;
    return {};
  }
  std::memcpy(copy, bytes.data, bytes.size);
  head_->buffer.Free();
  head_->bytes.data = copy;
  return head_->bytes;
}

}  // namespace fused_quant
