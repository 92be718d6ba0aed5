// SPDX-License-Identifier: BSD-3-Clause

#include "backend.h"

#include <executorch/runtime/platform/log.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "arguments.h"
#include "named_constants.h"
#include "plan.h"

namespace fused_quant {
namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::Result;
using executorch::runtime::Span;

// Finds two threads in one handle, where that costs one instruction: Armv6-M has no such exchange.
class Busy {
 public:
#if ATOMIC_BOOL_LOCK_FREE == 2
  bool enter() { return !busy_.exchange(true, std::memory_order_acquire); }
  void leave() { busy_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> busy_{false};
#else
  bool enter() { return true; }
  void leave() {}
#endif
};

// One delegate call of a loaded method; lives in memory of the runtime allocator.
struct Handle {
  Plan* plan = nullptr;
  const void** inputs = nullptr;  // one pointer per input, rewritten by every execution
  void** outputs = nullptr;
  NamedConstants* constants = nullptr;
  Busy busy;
};

Error to_error(Code code) {
  switch (code) {
    case Code::kOk:
      return Error::Ok;
    case Code::kInvalidCompatibility:
      return Error::DelegateInvalidCompatibility;
    case Code::kInvalidProgram:
      return Error::InvalidProgram;
    case Code::kOperatorMissing:
      return Error::OperatorMissing;
    case Code::kNotSupported:
      return Error::NotSupported;
    case Code::kMemoryAllocationFailed:
      return Error::MemoryAllocationFailed;
    case Code::kInvalidArgument:
      return Error::InvalidArgument;
  }
  return Error::Internal;
}

Error log_status(const Status& status) {
  ET_LOG(Error, "FusedQuantBackend: %s (at %ld, got %lld, expected %lld)", status.what,
         static_cast<long>(status.where), static_cast<long long>(status.got),
         static_cast<long long>(status.expected));
  return to_error(status.code);
}

// `size` bytes for the life of the method, or null after logging how many were asked for.
void* take(MemoryAllocator* allocator, size_t size, const char* purpose) {
  void* const block = allocator->allocate(size, kAlignment);
  if (block == nullptr) {
    ET_LOG(Error, "FusedQuantBackend: no memory for %s: %zu bytes needed from the method allocator",
           purpose, size);
  }
  return block;
}

template <typename T>
T* take_array(MemoryAllocator* allocator, size_t count, const char* purpose) {
  return static_cast<T*>(take(allocator, count * sizeof(T), purpose));
}

// Address of the payload, 16-byte aligned. ExecuTorch places delegate data at aligned file offsets,
// so a copy is made only for a program that was itself loaded to an odd address; the original is
// then freed, to keep one copy.
Result<const void*> aligned_payload(FreeableBuffer* processed, MemoryAllocator* allocator) {
  const Result<const void*> data = processed->data_safe();
  if (!data.ok()) return data.error();
  if (*data == nullptr || reinterpret_cast<uintptr_t>(*data) % kAlignment == 0) return *data;

  ET_LOG(Info, "FusedQuantBackend: payload at %p is copied, it is used in place only %zu-aligned",
         *data, kAlignment);
  void* const copy = take(allocator, processed->size(), "an aligned copy of the payload");
  if (copy == nullptr) return Error::MemoryAllocationFailed;
  std::memcpy(copy, *data, processed->size());
  processed->Free();
  return static_cast<const void*>(copy);
}

// The instruction set a caller forces: the load-time option "isa", on hosts also the environment
// variable FUSED_QUANT_ISA; null when neither is set.
Result<const char*> forced_isa(const BackendInitContext& context) {
  const auto isa = context.get_runtime_spec<const char*>("isa");
  if (isa.ok()) return *isa;
  if (isa.error() == Error::NotFound) {
#if defined(__unix__) || defined(__APPLE__)
    return static_cast<const char*>(std::getenv("FUSED_QUANT_ISA"));
#else
    return static_cast<const char*>(nullptr);
#endif
  }
  ET_LOG(Error, "FusedQuantBackend: the option \"isa\" must be a string");
  return isa.error();
}

// The handle of `plan` with room for the argument pointers, or null when memory is short.
Handle* make_handle(MemoryAllocator* allocator, Plan* plan, NamedConstants* constants) {
  void* const block = take(allocator, sizeof(Handle), "a delegate handle");
  if (block == nullptr) return nullptr;
  auto* const handle = new (block) Handle;
  handle->plan = plan;
  handle->constants = constants;
  handle->inputs = take_array<const void*>(allocator, plan->num_inputs(), "input pointers");
  handle->outputs = take_array<void*>(allocator, plan->num_outputs(), "output pointers");
  return handle->inputs != nullptr && handle->outputs != nullptr ? handle : nullptr;
}

// Verifies the payload, takes what it needs and makes its plan.
Result<Handle*> load(const void* payload, size_t size, const char* isa, MemoryAllocator* allocator,
                     NamedConstants* constants) {
  Options options;
  options.isa = isa;
  options.constants = constants->source();
  MemoryNeeds needs;
  Status status = memory_needs(payload, size, &needs, options);
  if (constants->error() != Error::Ok) return constants->error();
  if (!status.ok()) return log_status(status);
  void* const persistent = take(allocator, needs.persistent_bytes, "the plan");
  void* const arena = take(allocator, needs.arena_bytes, "the arena");
  if (persistent == nullptr || arena == nullptr) return Error::MemoryAllocationFailed;

  Plan* plan = nullptr;
  status = Plan::create(payload, size, persistent, needs.persistent_bytes, arena, needs.arena_bytes,
                        &plan, options);
  if (!status.ok()) return log_status(status);
  Handle* const handle = make_handle(allocator, plan, constants);
  if (handle == nullptr) return Error::MemoryAllocationFailed;
  return handle;
}

// Fills the handle's pointers with the data of `args`, or says which one does not fit.
Error bind_arguments(const Handle& handle, Span<EValue*> args) {
  const uint32_t num_inputs = handle.plan->num_inputs();
  const uint32_t num_outputs = handle.plan->num_outputs();
  if (args.size() != static_cast<size_t>(num_inputs) + num_outputs) {
    ET_LOG(Error, "FusedQuantBackend: got %zu arguments, expected %u inputs and %u outputs",
           args.size(), static_cast<unsigned>(num_inputs), static_cast<unsigned>(num_outputs));
    return Error::InvalidArgument;
  }
  for (uint32_t i = 0; i < num_inputs; ++i) {
    void* data = nullptr;
    const Error error = bind_argument(*args[i], handle.plan->input(i), {"input", i}, &data);
    if (error != Error::Ok) return error;
    handle.inputs[i] = data;
  }
  for (uint32_t i = 0; i < num_outputs; ++i) {
    const Error error = bind_argument(*args[num_inputs + i], handle.plan->output(i), {"output", i},
                                      &handle.outputs[i]);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

}  // namespace

bool FusedQuantBackend::is_available() const { return true; }

Result<DelegateHandle*> FusedQuantBackend::init(BackendInitContext& context,
                                                FreeableBuffer* processed,
                                                ArrayRef<CompileSpec> compile_specs) const {
  static_cast<void>(compile_specs);  // everything the target depends on is in the payload
  MemoryAllocator* const allocator = context.get_runtime_allocator();
  if (allocator == nullptr || processed == nullptr) {
    ET_LOG(Error, "FusedQuantBackend: init needs a payload and a method allocator");
    return Error::InvalidArgument;
  }
  const size_t size = processed->size();
  const Result<const void*> payload = aligned_payload(processed, allocator);
  if (!payload.ok()) return payload.error();
  const Result<const char*> isa = forced_isa(context);
  if (!isa.ok()) return isa.error();
  void* const block = take(allocator, sizeof(NamedConstants), "the list of shared constants");
  if (block == nullptr) return Error::MemoryAllocationFailed;
  auto* const constants = new (block) NamedConstants(context.get_named_data_map(), allocator);
  const Result<Handle*> handle = load(*payload, size, *isa, allocator, constants);
  if (!handle.ok()) {
    constants->release();
    return handle.error();
  }
  return static_cast<DelegateHandle*>(*handle);
}

Error FusedQuantBackend::execute(BackendExecutionContext& context, DelegateHandle* handle,
                                 Span<EValue*> args) const {
  static_cast<void>(context);
  auto* const call = static_cast<Handle*>(handle);
  if (!call->busy.enter()) {
    ET_LOG(Error, "FusedQuantBackend: a second thread executes the same loaded method");
    return Error::InvalidState;
  }
  const Error error = bind_arguments(*call, args);
  if (error == Error::Ok) call->plan->execute(call->inputs, call->outputs);
  call->busy.leave();
  return error;
}

// All memory belongs to the method allocator; only the shared constants' buffers are owned.
void FusedQuantBackend::destroy(DelegateHandle* handle) const {
  if (handle != nullptr) static_cast<Handle*>(handle)->constants->release();
}

}  // namespace fused_quant
