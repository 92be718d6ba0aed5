// SPDX-License-Identifier: BSD-3-Clause

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/runtime.h>

#include <new>

#include "backend.h"
#include "fused_quant_backend.h"

namespace {

using executorch::runtime::Error;

constexpr char kBackendId[] = "FusedQuantBackend";

// Never destroyed: methods may outlive the static objects of this library at exit.
fused_quant::FusedQuantBackend* instance() {
  alignas(fused_quant::FusedQuantBackend) static unsigned char
      storage[sizeof(fused_quant::FusedQuantBackend)];
  static auto* const backend = new (storage) fused_quant::FusedQuantBackend;
  return backend;
}

Error register_once() {
  const auto* registered = executorch::runtime::get_backend_class(kBackendId);
  if (registered == instance()) {
    return Error::Ok;
  }
  if (registered != nullptr) {
    return Error::RegistrationAlreadyRegistered;
  }
  return executorch::runtime::register_backend({kBackendId, instance()});
}

// Runs when the library is loaded, or before main when it is linked statically as a whole.
[[maybe_unused]] const bool registered_at_load = [] {
  const Error error = register_once();
  if (error != Error::Ok) {
    executorch::runtime::runtime_init();  // the log needs it, and main has not run yet
    ET_LOG(Error, "%s: not registered, error 0x%02x", kBackendId, static_cast<unsigned>(error));
  }
  return error == Error::Ok;
}();

}  // namespace

uint32_t fused_quant_register_backend(void) { return static_cast<uint32_t>(register_once()); }
