// SPDX-License-Identifier: BSD-3-Clause

#include "isa.h"

#include <cstddef>

namespace fused_quant {
namespace {

bool always() { return true; }

struct IsaEntry {
  const char* name;
  Isa isa;
  bool (*available)();
};

// In the order of the enumerators, so that the enumerator is the index.
constexpr IsaEntry kIsaEntries[] = {
    {"scalar", Isa::scalar, always},
};
constexpr size_t kIsaCount = sizeof(kIsaEntries) / sizeof(kIsaEntries[0]);

bool same(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

}  // namespace

const char* isa_name(Isa isa) {
  const size_t index = static_cast<size_t>(isa);
  return index < kIsaCount ? kIsaEntries[index].name : "unknown";
}

bool isa_available(Isa isa) {
  const size_t index = static_cast<size_t>(isa);
  return index < kIsaCount && kIsaEntries[index].available();
}

Status select_isa(const char* request, Isa* isa) {
  if (request == nullptr || *request == '\0') {
    for (size_t i = kIsaCount; i > 0; --i) {
      if (kIsaEntries[i - 1].available()) {
        *isa = kIsaEntries[i - 1].isa;
        return Status();
      }
    }
    return make_status(Code::kNotSupported, "no instruction set is available");
  }
  for (const IsaEntry& entry : kIsaEntries) {
    if (!same(entry.name, request)) continue;
    if (!entry.available()) {
      return make_status(Code::kNotSupported, "requested instruction set cannot run here");
    }
    *isa = entry.isa;
    return Status();
  }
  return make_status(Code::kNotSupported, "requested instruction set is not in this build");
}

}  // namespace fused_quant
