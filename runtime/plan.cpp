// SPDX-License-Identifier: BSD-3-Clause

#include "plan.h"

#include <new>

namespace fused_quant {
namespace {

static_assert(sizeof(Plan) <= kPlanHeaderBytes, "kPlanHeaderBytes is a published bound");
static_assert(sizeof(TensorView) <= kTensorBytes, "kTensorBytes is a published bound");
static_assert(sizeof(Step) <= kStepBytes, "kStepBytes is a published bound");
static_assert(kMaxParamsBytes == kParamsBytes, "kParamsBytes is a published bound");
static_assert(sizeof(const TensorView*) <= kOperandBytes, "kOperandBytes is a published bound");

constexpr size_t kParamsAlignment = 8;
static_assert(kParamsBytes % kParamsAlignment == 0, "parameter blocks follow each other");

// What memory a plan needs, part by part.
struct Layout {
  PayloadCounts counts;
  uint64_t params_bytes = 0;   // of all operators
  uint64_t scratch_bytes = 0;  // of the operator that needs most

  static uint64_t header() { return align_up(sizeof(Plan), kParamsAlignment); }
  uint64_t tensors() const { return align_up(counts.tensors * sizeof(TensorView), 8); }
  uint64_t steps() const { return align_up(counts.ops * sizeof(Step), 8); }
  uint64_t operands() const { return align_up(counts.operands * sizeof(const TensorView*), 8); }
  uint64_t persistent_bytes() const {
    return align_up(header() + tensors() + steps() + operands() + params_bytes, kAlignment);
  }
};

// An operator is dispatched by the dtype of its codes: that of its first output, or of its first
// input when the output is float.
Status choose_kernel(const OpContext& context, schema::OpCode opcode, uint32_t index,
                     const Kernel** kernel) {
  if (context.num_outputs() == 0) return context.invalid("operator has no output");
  schema::DType dtype = context.output(0).dtype;
  if (dtype == schema::DType_f32) {
    if (!context.has_input(0)) return context.invalid("required input is absent");
    dtype = context.input(0).dtype;
  }
  *kernel = find_kernel(opcode, dtype, context.isa());
  if (*kernel == nullptr) {
    return make_status(Code::kOperatorMissing, "no kernel for this operator and dtype",
                       static_cast<int32_t>(index), opcode, dtype);
  }
  return Status();
}

// What the caller's options come down to.
struct Choices {
  Isa isa = Isa::scalar;
  ConstantSource constants;
};

Status choose(const Options& options, Choices* choices) {
  choices->constants = options.constants;
  return select_isa(options.isa, &choices->isa);
}

Status prepare_op(const schema::Payload& payload, uint32_t index, const Choices& choices,
                  void* params, const Kernel** kernel, Prepared* prepared) {
  OpContext context(payload, index, choices.isa, choices.constants);
  FQ_RETURN_IF_ERROR(choose_kernel(context, payload.ops()->Get(index)->opcode(), index, kernel));
  return (*kernel)->prepare(OpContext(payload, index, (*kernel)->isa, choices.constants), params,
                            prepared);
}

// Verifies everything and adds up the memory.
Status examine(const void* data, size_t size, const Choices& choices,
               const schema::Payload** payload, Layout* layout) {
  FQ_RETURN_IF_ERROR(open_payload(data, size, choices.constants, payload, &layout->counts));
  for (uint32_t i = 0; i < layout->counts.ops; ++i) {
    alignas(kParamsAlignment) uint8_t params[kParamsBytes];
    const Kernel* kernel = nullptr;
    Prepared prepared;
    FQ_RETURN_IF_ERROR(prepare_op(**payload, i, choices, params, &kernel, &prepared));
    layout->params_bytes += align_up(prepared.params_bytes, kParamsAlignment);
    if (prepared.scratch_bytes > layout->scratch_bytes) {
      layout->scratch_bytes = prepared.scratch_bytes;
    }
  }
  return Status();
}

Status total_needs(const schema::Payload& payload, const Layout& layout, MemoryNeeds* needs) {
  const uint64_t arena =
      align_up(payload.arena_bytes(), kAlignment) + align_up(layout.scratch_bytes, kAlignment);
  const uint64_t persistent = layout.persistent_bytes();
  if (arena > SIZE_MAX / 2 || persistent > SIZE_MAX / 2) {
    return make_status(Code::kMemoryAllocationFailed, "more memory than this target can address",
                       -1, 0, static_cast<int64_t>(arena > persistent ? arena : persistent));
  }
  needs->persistent_bytes = static_cast<size_t>(persistent);
  needs->arena_bytes = static_cast<size_t>(arena);
  return Status();
}

Status check_block(const void* block, size_t size, size_t needed, const char* too_small,
                   const char* misaligned) {
  if (needed == 0) return Status();
  if (block == nullptr || size < needed) {
    return make_status(Code::kMemoryAllocationFailed, too_small, -1,
                       static_cast<int64_t>(block == nullptr ? 0 : size),
                       static_cast<int64_t>(needed));
  }
  if (!is_aligned(block, kAlignment)) {
    return make_status(Code::kInvalidArgument, misaligned, -1,
                       static_cast<int64_t>(reinterpret_cast<uintptr_t>(block) % kAlignment), 0);
  }
  return Status();
}

const char* text(const flatbuffers::String* string) {
  return string == nullptr ? "" : string->c_str();
}

}  // namespace

// Fills the persistent block from front to back.
struct Plan::Builder {
  Plan* plan;
  uint8_t* cursor;
  uint8_t* arena;
  uint8_t* scratch;
  const Choices& choices;

  template <typename T>
  T* take(uint64_t bytes) {
    T* result = reinterpret_cast<T*>(cursor);
    cursor += bytes;
    return result;
  }

  void place_tensors(const schema::Payload& payload, const Layout& layout) {
    plan->tensors_ = take<TensorView>(layout.tensors());
    for (uint32_t i = 0; i < layout.counts.tensors; ++i) {
      TensorView* view =
          new (plan->tensors_ + i) TensorView(tensor_view(payload, i, choices.constants));
      const schema::Tensor* tensor = payload.tensors()->Get(i);
      if (tensor->storage() == schema::Storage_arena) view->data = arena + tensor->location();
    }
  }

  void place_operands(const flatbuffers::Vector<int32_t>* indices, const TensorView*** next) {
    if (indices == nullptr) return;
    for (uint32_t k = 0; k < indices->size(); ++k) {
      const int32_t index = indices->Get(k);
      *(*next)++ = index < 0 ? nullptr : plan->tensors_ + index;
    }
  }

  Status place_steps(const schema::Payload& payload, const Layout& layout) {
    plan->steps_ = take<Step>(layout.steps());
    const TensorView** next = take<const TensorView*>(layout.operands());
    for (uint32_t i = 0; i < layout.counts.ops; ++i) {
      Step* step = new (plan->steps_ + i) Step();
      const schema::Op* op = payload.ops()->Get(i);
      Prepared prepared;
      FQ_RETURN_IF_ERROR(prepare_op(payload, i, choices, cursor, &step->kernel, &prepared));
      step->parameters = take<uint8_t>(align_up(prepared.params_bytes, kParamsAlignment));
      step->scratch = scratch;
      step->operands = next;
      step->num_inputs = op->inputs() == nullptr ? 0 : op->inputs()->size();
      place_operands(op->inputs(), &next);
      place_operands(op->outputs(), &next);
    }
    return Status();
  }
};

Status memory_needs(const void* payload, size_t size, MemoryNeeds* needs, const Options& options) {
  Choices choices;
  FQ_RETURN_IF_ERROR(choose(options, &choices));
  const schema::Payload* root = nullptr;
  Layout layout;
  FQ_RETURN_IF_ERROR(examine(payload, size, choices, &root, &layout));
  return total_needs(*root, layout, needs);
}

Status Plan::create(const void* payload, size_t size, void* persistent, size_t persistent_size,
                    void* arena, size_t arena_size, Plan** out, const Options& options) {
  Choices choices;
  FQ_RETURN_IF_ERROR(choose(options, &choices));
  const schema::Payload* root = nullptr;
  Layout layout;
  FQ_RETURN_IF_ERROR(examine(payload, size, choices, &root, &layout));
  MemoryNeeds needs;
  FQ_RETURN_IF_ERROR(total_needs(*root, layout, &needs));
  FQ_RETURN_IF_ERROR(check_block(persistent, persistent_size, needs.persistent_bytes,
                                 "persistent block is too small",
                                 "persistent block is not 16-byte aligned"));
  FQ_RETURN_IF_ERROR(check_block(arena, arena_size, needs.arena_bytes, "arena is too small",
                                 "arena is not 16-byte aligned"));
  Plan* plan = new (persistent) Plan();
  plan->payload_ = root;
  plan->num_steps_ = layout.counts.ops;
  plan->num_inputs_ = root->inputs() == nullptr ? 0 : root->inputs()->size();
  plan->num_outputs_ = root->outputs() == nullptr ? 0 : root->outputs()->size();
  uint8_t* base = static_cast<uint8_t*>(arena);
  uint8_t* scratch =
      layout.scratch_bytes == 0 ? nullptr : base + align_up(root->arena_bytes(), kAlignment);
  Builder builder{plan, static_cast<uint8_t*>(persistent) + Layout::header(), base, scratch,
                  choices};
  builder.place_tensors(*root, layout);
  FQ_RETURN_IF_ERROR(builder.place_steps(*root, layout));
  *out = plan;
  return Status();
}

TensorInfo Plan::info(uint32_t tensor) const {
  const schema::Tensor* stored = payload_->tensors()->Get(tensor);
  TensorInfo result;
  result.view = tensor_view(*payload_, tensor);
  result.nbytes = tensor_bytes(result.view);
  result.name = text(stored->name());
  if (stored->dim_order() != nullptr && stored->dim_order()->size() != 0) {
    result.dim_order = stored->dim_order()->data();
  }
  return result;
}

TensorInfo Plan::input(uint32_t index) const { return info(payload_->inputs()->Get(index)); }
TensorInfo Plan::output(uint32_t index) const { return info(payload_->outputs()->Get(index)); }

const char* Plan::step_name(uint32_t index) const {
  return text(payload_->ops()->Get(index)->name());
}
const char* Plan::step_op(uint32_t index) const { return steps_[index].kernel->op; }
const char* Plan::step_kernel(uint32_t index) const { return steps_[index].kernel->name; }
Isa Plan::step_isa(uint32_t index) const { return steps_[index].kernel->isa; }

void Plan::bind(const void* const* inputs, void* const* outputs) {
  for (uint32_t i = 0; i < num_inputs_; ++i) {
    // Nothing writes an input: the loader saw to it.
    tensors_[payload_->inputs()->Get(i)].data = const_cast<void*>(inputs[i]);
  }
  for (uint32_t i = 0; i < num_outputs_; ++i) {
    tensors_[payload_->outputs()->Get(i)].data = outputs[i];
  }
}

void Plan::execute(const void* const* inputs, void* const* outputs) {
  bind(inputs, outputs);
  for (uint32_t i = 0; i < num_steps_; ++i) run_step(i);
}

}  // namespace fused_quant
