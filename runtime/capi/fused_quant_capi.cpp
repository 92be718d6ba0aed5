// SPDX-License-Identifier: BSD-3-Clause

#include "fused_quant_capi.h"

#include <cstring>

#include "numerics/requantize.h"
#include "plan.h"

namespace {

using fused_quant::Code;
using fused_quant::Kernel;
using fused_quant::Options;
using fused_quant::Plan;
using fused_quant::Status;
using fused_quant::TensorInfo;

static_assert(FQ_MAX_RANK == fused_quant::kMaxRank, "the C struct holds every size");

int32_t report(const Status& status, fq_status* st) {
  const int32_t code = static_cast<int32_t>(status.code);
  if (st != nullptr) *st = {code, status.what, status.where, status.got, status.expected};
  return code;
}

int32_t bad_argument(const char* what, fq_status* st) {
  return report(fused_quant::make_status(Code::kInvalidArgument, what), st);
}

Plan* plan_of(fq_plan* plan) { return reinterpret_cast<Plan*>(plan); }
const Plan* plan_of(const fq_plan* plan) { return reinterpret_cast<const Plan*>(plan); }

bool addresses(const void* pointer, const TensorInfo& info) {
  return pointer != nullptr &&
         fused_quant::is_aligned(pointer, fused_quant::dtype_bytes(info.view.dtype));
}

void describe(const TensorInfo& info, fq_tensor* out) {
  out->name = info.name;
  out->dtype = info.view.dtype;
  out->rank = info.view.rank;
  for (uint32_t i = 0; i < fused_quant::kMaxRank; ++i) out->dim[i] = info.view.dim[i];
  out->dim_order = info.dim_order;
  out->nbytes = info.nbytes;
}

const Kernel* kernel_of(uint32_t index) {
  return index < fused_quant::num_kernels() ? &fused_quant::kernel_at(index) : nullptr;
}

// The entry of an fq_options with this key.
fused_quant::ConstantBytes find_constant(void* context, const char* key, size_t key_length) {
  const auto* options = static_cast<const fq_options*>(context);
  for (uint32_t i = 0; i < options->num_constants; ++i) {
    const fq_constant& entry = options->constants[i];
    if (std::strlen(entry.key) == key_length && std::memcmp(entry.key, key, key_length) == 0) {
      return {entry.data, static_cast<size_t>(entry.size)};
    }
  }
  return {};
}

Options options_of(const fq_options* given) {
  Options options;
  if (given == nullptr) return options;
  options.isa = given->isa;
  if (given->num_constants != 0) {
    // Only read: a context is any pointer.
    options.constants = {find_constant, const_cast<fq_options*>(given)};
  }
  return options;
}

constexpr int32_t kOk = static_cast<int32_t>(Code::kOk);
constexpr int32_t kInvalidArgument = static_cast<int32_t>(Code::kInvalidArgument);

}  // namespace

int32_t fq_memory_needs_with(const void* payload, uint64_t size, const fq_options* options,
                             uint64_t* persistent, uint64_t* arena, fq_status* st) {
  if (persistent == nullptr || arena == nullptr) return bad_argument("null result pointer", st);
  fused_quant::MemoryNeeds needs;
  const Status status = fused_quant::memory_needs(payload, size, &needs, options_of(options));
  if (status.ok()) {
    *persistent = needs.persistent_bytes;
    *arena = needs.arena_bytes;
  }
  return report(status, st);
}

int32_t fq_memory_needs_isa(const void* payload, uint64_t size, const char* isa,
                            uint64_t* persistent, uint64_t* arena, fq_status* st) {
  const fq_options options = {isa, nullptr, 0};
  return fq_memory_needs_with(payload, size, &options, persistent, arena, st);
}

int32_t fq_memory_needs(const void* payload, uint64_t size, uint64_t* persistent, uint64_t* arena,
                        fq_status* st) {
  return fq_memory_needs_isa(payload, size, nullptr, persistent, arena, st);
}

int32_t fq_plan_create_with(const void* payload, uint64_t size, const fq_options* options,
                            void* persistent, uint64_t persistent_size, void* arena,
                            uint64_t arena_size, fq_plan** out, fq_status* st) {
  if (out == nullptr) return bad_argument("null result pointer", st);
  Plan* plan = nullptr;
  const Status status = Plan::create(payload, size, persistent, persistent_size, arena, arena_size,
                                     &plan, options_of(options));
  if (status.ok()) *out = reinterpret_cast<fq_plan*>(plan);
  return report(status, st);
}

int32_t fq_plan_create_isa(const void* payload, uint64_t size, const char* isa, void* persistent,
                           uint64_t persistent_size, void* arena, uint64_t arena_size,
                           fq_plan** out, fq_status* st) {
  const fq_options options = {isa, nullptr, 0};
  return fq_plan_create_with(payload, size, &options, persistent, persistent_size, arena,
                             arena_size, out, st);
}

int32_t fq_plan_create(const void* payload, uint64_t size, void* persistent,
                       uint64_t persistent_size, void* arena, uint64_t arena_size, fq_plan** out,
                       fq_status* st) {
  return fq_plan_create_isa(payload, size, nullptr, persistent, persistent_size, arena, arena_size,
                            out, st);
}

int32_t fq_plan_execute(fq_plan* plan, const void* const* inputs, void* const* outputs) {
  if (plan == nullptr) return kInvalidArgument;
  Plan* p = plan_of(plan);
  if ((inputs == nullptr && p->num_inputs() != 0) ||
      (outputs == nullptr && p->num_outputs() != 0)) {
    return kInvalidArgument;
  }
  for (uint32_t i = 0; i < p->num_inputs(); ++i) {
    if (!addresses(inputs[i], p->input(i))) return kInvalidArgument;
  }
  for (uint32_t i = 0; i < p->num_outputs(); ++i) {
    if (!addresses(outputs[i], p->output(i))) return kInvalidArgument;
  }
  p->execute(inputs, outputs);
  return kOk;
}

uint32_t fq_num_inputs(const fq_plan* plan) { return plan_of(plan)->num_inputs(); }
uint32_t fq_num_outputs(const fq_plan* plan) { return plan_of(plan)->num_outputs(); }
uint32_t fq_num_steps(const fq_plan* plan) { return plan_of(plan)->num_steps(); }

int32_t fq_input(const fq_plan* plan, uint32_t index, fq_tensor* out) {
  if (index >= fq_num_inputs(plan)) return kInvalidArgument;
  describe(plan_of(plan)->input(index), out);
  return kOk;
}

int32_t fq_output(const fq_plan* plan, uint32_t index, fq_tensor* out) {
  if (index >= fq_num_outputs(plan)) return kInvalidArgument;
  describe(plan_of(plan)->output(index), out);
  return kOk;
}

const char* fq_step_name(const fq_plan* plan, uint32_t index) {
  return index < fq_num_steps(plan) ? plan_of(plan)->step_name(index) : nullptr;
}
const char* fq_step_op(const fq_plan* plan, uint32_t index) {
  return index < fq_num_steps(plan) ? plan_of(plan)->step_op(index) : nullptr;
}
const char* fq_step_kernel(const fq_plan* plan, uint32_t index) {
  return index < fq_num_steps(plan) ? plan_of(plan)->step_kernel(index) : nullptr;
}
const char* fq_step_isa(const fq_plan* plan, uint32_t index) {
  return index < fq_num_steps(plan) ? fused_quant::isa_name(plan_of(plan)->step_isa(index))
                                    : nullptr;
}

uint32_t fq_num_kernels(void) { return fused_quant::num_kernels(); }
const char* fq_kernel_name(uint32_t index) {
  return kernel_of(index) == nullptr ? nullptr : kernel_of(index)->name;
}
const char* fq_kernel_op(uint32_t index) {
  return kernel_of(index) == nullptr ? nullptr : kernel_of(index)->op;
}
const char* fq_kernel_isa(uint32_t index) {
  return kernel_of(index) == nullptr ? nullptr : fused_quant::isa_name(kernel_of(index)->isa);
}

void fq_requantize(const int32_t* acc, const int32_t* multiplier, const uint8_t* shift,
                   int32_t zero_point, int32_t lo, int32_t hi, int32_t* out, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    out[i] = fused_quant::requantize(acc[i], multiplier[i], shift[i], zero_point, lo, hi);
  }
}
