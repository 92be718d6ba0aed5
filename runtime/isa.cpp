// SPDX-License-Identifier: BSD-3-Clause

#include "isa.h"

#include <cstddef>

#ifdef FUSED_QUANT_XTENSA_HIFI
#include "kernels/hifi/hifi.h"
#endif

namespace fused_quant {
namespace {

bool always() { return true; }

#ifdef FUSED_QUANT_XTENSA_HIFI
bool has_hifi_kernels() { return true; }
bool has_hifi_core() { return FUSED_QUANT_REAL_HIFI != 0; }
#else
bool has_hifi_kernels() { return false; }
bool has_hifi_core() { return false; }
#endif

enum class Architecture : uint8_t { any, xtensa };

struct IsaEntry {
  const char* name;
  Isa isa;
  Architecture architecture;
  bool (*available)();
  bool (*automatic)();  // whether it is a candidate when none is asked for
};

// In the order of the enumerators, so that the enumerator is the index.
constexpr IsaEntry kIsaEntries[] = {
    {"scalar", Isa::scalar, Architecture::any, always, always},
    {"xtensa_hifi", Isa::xtensa_hifi, Architecture::xtensa, has_hifi_kernels, has_hifi_core},
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

bool isa_allows(Isa requested, Isa isa) {
  const auto architecture = [](Isa one) {
    return kIsaEntries[static_cast<size_t>(one)].architecture;
  };
  return isa == Isa::scalar || (isa <= requested && architecture(isa) == architecture(requested));
}

Status select_isa(const char* request, Isa* isa) {
  if (request == nullptr || *request == '\0') {
    for (size_t i = kIsaCount; i > 0; --i) {
      if (kIsaEntries[i - 1].available() && kIsaEntries[i - 1].automatic()) {
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
