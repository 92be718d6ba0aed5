// SPDX-License-Identifier: BSD-3-Clause
#include "pte/program_reader.h"

#include <cstring>

// The file is verified before it is read; the reader may not depend on assert().
#ifndef FLATBUFFERS_ASSERT
#define FLATBUFFERS_ASSERT(condition) static_cast<void>(0)
#endif

#include "program_generated.h"

static_assert(FLATBUFFERS_LITTLEENDIAN, "the file's integer vectors are used in place");

namespace fused_quant::pte {
namespace {

namespace et = executorch_flatbuffer;

// Layout of the extended header that ExecuTorch inserts after the root offset and the identifier.
constexpr size_t kHeaderOffset = 8;
constexpr char kHeaderMagic[] = "eh00";
constexpr size_t kHeaderMinLength = 24;   // magic, length, program size, segment base offset
constexpr size_t kHeaderFullLength = 32;  // and the size of the segment data
// The only value ExecuTorch has given Program.version; an incompatible change would raise it.
constexpr uint32_t kSchemaVersion = 0;
// A flatbuffer addresses itself with 31 bits.
constexpr uint64_t kMaxProgramBytes = FLATBUFFERS_MAX_BUFFER_SIZE - 1;
// program.fbs nests to depth 6 (Program, plan, chain, instruction, call); bounds the stack.
constexpr flatbuffers::uoffset_t kMaxDepth = 16;

struct Extents {
  size_t program_size;         // flatbuffer with the header inside it
  size_t segment_base_offset;  // 0 = no segments
  size_t segment_data_size;    // bytes from there that segments may use
};

uint32_t read_u32(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint64_t read_u64(const uint8_t* bytes) {
  uint64_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

Status read_header(const uint8_t* file, size_t size, Extents* extents) {
  *extents = {size, 0, 0};
  const uint8_t* header = file + kHeaderOffset;
  if (size < kHeaderOffset + kHeaderMinLength ||
      std::memcmp(header, kHeaderMagic, sizeof(kHeaderMagic) - 1) != 0) {
    return Status{};  // no header: the file is one flatbuffer without segments
  }
  const uint32_t length = read_u32(header + 4);
  if (length < kHeaderMinLength) {
    return make_status(Code::kInvalidProgram, ".pte: extended header too short", -1, length,
                       kHeaderMinLength);
  }
  const uint64_t program_size = read_u64(header + 8);
  if (program_size > size) {
    return make_status(Code::kInvalidProgram, ".pte: truncated program", -1,
                       static_cast<int64_t>(size), static_cast<int64_t>(program_size));
  }
  extents->program_size = static_cast<size_t>(program_size);
  const uint64_t base = read_u64(header + 16);
  if (base == 0) {
    return Status{};
  }
  if (base < program_size || base > size) {
    return make_status(Code::kInvalidProgram, ".pte: segments start outside the file", -1,
                       static_cast<int64_t>(base), static_cast<int64_t>(size));
  }
  uint64_t segment_bytes = size - base;
  if (length >= kHeaderFullLength && size >= kHeaderOffset + kHeaderFullLength) {
    // Zero means that the writer did not fill the field in.
    const uint64_t stated = read_u64(header + 24);
    if (stated > segment_bytes) {
      return make_status(Code::kInvalidProgram, ".pte: truncated segments", -1,
                         static_cast<int64_t>(segment_bytes), static_cast<int64_t>(stated));
    }
    segment_bytes = stated != 0 ? stated : segment_bytes;
  }
  extents->segment_base_offset = static_cast<size_t>(base);
  extents->segment_data_size = static_cast<size_t>(segment_bytes);
  return Status{};
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0;
}

bool equals(const flatbuffers::String* text, const char* expected) {
  const size_t length = std::strlen(expected);
  return text != nullptr && text->size() == length &&
         std::memcmp(text->c_str(), expected, length) == 0;
}

template <typename T>
uint32_t length_of(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Position of `value` in `values`, or -1.
int32_t position(const flatbuffers::Vector<int32_t>* values, int32_t value) {
  for (uint32_t i = 0; i < length_of(values); ++i) {
    if (values->Get(i) == value) {
      return static_cast<int32_t>(i);
    }
  }
  return -1;
}

size_t element_size(et::ScalarType type) {
  switch (type) {
    case et::ScalarType_BYTE:
    case et::ScalarType_CHAR:
    case et::ScalarType_BOOL:
      return 1;
    case et::ScalarType_SHORT:
    case et::ScalarType_UINT16:
    case et::ScalarType_HALF:
    case et::ScalarType_BFLOAT16:
      return 2;
    case et::ScalarType_INT:
    case et::ScalarType_UINT32:
    case et::ScalarType_FLOAT:
      return 4;
    case et::ScalarType_LONG:
    case et::ScalarType_UINT64:
    case et::ScalarType_DOUBLE:
      return 8;
    default:
      return 0;
  }
}

// Checks that every index appears once; rank is at most kMaxTensorRank.
bool is_permutation(const flatbuffers::Vector<uint8_t>& order) {
  uint32_t seen = 0;
  for (const uint8_t dim : order) {
    if (dim >= order.size() || (seen >> dim & 1u) != 0) {
      return false;
    }
    seen |= 1u << dim;
  }
  return true;
}

}  // namespace

Status ProgramReader::open(const void* pte, size_t size, ProgramReader* reader, const char* method,
                           const char* backend_id) {
  if (pte == nullptr || !is_aligned(pte)) {
    return make_status(Code::kInvalidArgument, ".pte: null or not aligned to 16 bytes", -1,
                       static_cast<int64_t>(reinterpret_cast<uintptr_t>(pte) % kAlignment), 0);
  }
  const auto* file = static_cast<const uint8_t*>(pte);
  if (size < kHeaderOffset || !et::ProgramBufferHasIdentifier(pte)) {
    return make_status(Code::kInvalidCompatibility, ".pte: identifier is not ET12");
  }
  Extents extents;
  Status status = read_header(file, size, &extents);
  if (!status.ok()) {
    return status;
  }
  if (extents.program_size > kMaxProgramBytes) {
    return make_status(Code::kInvalidProgram, ".pte: program too large", -1,
                       static_cast<int64_t>(extents.program_size),
                       static_cast<int64_t>(kMaxProgramBytes));
  }
  flatbuffers::Verifier::Options options;
  options.max_depth = kMaxDepth;
  // A table takes at least four bytes, so a file with more of them shares some on purpose.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(extents.program_size / 4);
  flatbuffers::Verifier verifier(file, extents.program_size, options);
  if (!et::VerifyProgramBuffer(verifier)) {
    return make_status(Code::kInvalidProgram, ".pte: flatbuffer verification failed");
  }
  const et::Program& program = *et::GetProgram(pte);
  if (program.version() != kSchemaVersion) {
    return make_status(Code::kInvalidCompatibility, ".pte: schema version", -1, program.version(),
                       kSchemaVersion);
  }
  ProgramReader found;
  found.program_ = &program;
  found.segments_ = file + extents.segment_base_offset;
  found.segments_size_ = extents.segment_data_size;
  status = found.find_plan(method);
  if (status.ok()) {
    status = found.find_call();
  }
  if (status.ok()) {
    status = found.find_payload(backend_id);
  }
  if (status.ok()) {
    status = found.check_named_data();
  }
  if (status.ok()) {
    status = found.check_arguments();
  }
  if (status.ok()) {
    *reader = found;
  }
  return status;
}

Status ProgramReader::find_plan(const char* method) {
  for (uint32_t i = 0; i < length_of(program_->execution_plan()); ++i) {
    const et::ExecutionPlan* plan = program_->execution_plan()->Get(i);
    if (equals(plan->name(), method)) {
      plan_ = plan;
      return Status{};
    }
  }
  return make_status(Code::kInvalidArgument, ".pte: no method of this name", -1,
                     length_of(program_->execution_plan()), 0);
}

Status ProgramReader::find_call() {
  if (length_of(plan_->chains()) != 1) {
    return make_status(Code::kNotSupported, ".pte: not fully delegated: number of chains", -1,
                       length_of(plan_->chains()), 1);
  }
  const auto* instructions = plan_->chains()->Get(0)->instructions();
  for (uint32_t i = 0; i < length_of(instructions); ++i) {
    if (instructions->Get(i)->instr_args_as_DelegateCall() == nullptr) {
      return make_status(Code::kNotSupported,
                         ".pte: not fully delegated: instruction is not a delegate call",
                         static_cast<int32_t>(i), instructions->Get(i)->instr_args_type(),
                         et::InstructionArguments_DelegateCall);
    }
  }
  if (length_of(instructions) != 1) {
    return make_status(Code::kNotSupported, ".pte: not fully delegated: number of delegate calls",
                       -1, length_of(instructions), 1);
  }
  const et::DelegateCall* call = instructions->Get(0)->instr_args_as_DelegateCall();
  const int32_t delegate = call->delegate_index();
  if (delegate < 0 || static_cast<uint32_t>(delegate) >= length_of(plan_->delegates())) {
    return make_status(Code::kInvalidProgram, ".pte: delegate index out of range", -1, delegate,
                       length_of(plan_->delegates()));
  }
  delegate_ = static_cast<uint32_t>(delegate);
  num_inputs_ = length_of(plan_->inputs());
  num_outputs_ = length_of(plan_->outputs());
  const uint32_t num_arguments = length_of(call->args());
  if (num_inputs_ > kMaxArguments || num_outputs_ > kMaxArguments ||
      num_arguments > 2 * kMaxArguments) {
    return make_status(Code::kNotSupported, ".pte: too many inputs or outputs", -1,
                       num_inputs_ > num_outputs_ ? num_inputs_ : num_outputs_, kMaxArguments);
  }
  // check_arguments() splits them; until then all count as inputs.
  num_delegate_inputs_ = num_arguments;
  arguments_ = num_arguments == 0 ? nullptr : call->args()->data();
  return Status{};
}

Status ProgramReader::locate_segment(uint32_t index, ConstantBytes* bytes) const {
  if (index >= length_of(program_->segments())) {
    return make_status(Code::kInvalidProgram, ".pte: segment index out of range", -1, index,
                       length_of(program_->segments()));
  }
  const et::DataSegment* segment = program_->segments()->Get(index);
  const uint64_t available = segments_size_;
  if (segment->offset() > available || segment->size() > available - segment->offset()) {
    return make_status(Code::kInvalidProgram, ".pte: segment outside the file",
                       static_cast<int32_t>(index), static_cast<int64_t>(segment->offset()),
                       static_cast<int64_t>(available));
  }
  bytes->data = segments_ + static_cast<size_t>(segment->offset());
  bytes->size = static_cast<size_t>(segment->size());
  return Status{};
}

Status ProgramReader::check_named_data() const {
  for (uint32_t i = 0; i < length_of(program_->named_data()); ++i) {
    const et::NamedData* entry = program_->named_data()->Get(i);
    if (entry->key() == nullptr) {
      return make_status(Code::kInvalidProgram, ".pte: named data without a key",
                         static_cast<int32_t>(i));
    }
    ConstantBytes bytes;
    const Status status = locate_segment(entry->segment_index(), &bytes);
    if (!status.ok()) {
      return status;
    }
  }
  return Status{};
}

ConstantBytes ProgramReader::find_constant(void* context, const char* key, size_t key_length) {
  const auto* self = static_cast<const ProgramReader*>(context);
  const auto* entries = self->program_ == nullptr ? nullptr : self->program_->named_data();
  for (uint32_t i = 0; i < length_of(entries); ++i) {
    const flatbuffers::String* name = entries->Get(i)->key();
    if (name->size() == key_length && std::memcmp(name->c_str(), key, key_length) == 0) {
      ConstantBytes bytes;
      // open() has looked at every entry, so this cannot fail.
      return self->locate_segment(entries->Get(i)->segment_index(), &bytes).ok() ? bytes
                                                                                 : ConstantBytes{};
    }
  }
  return ConstantBytes{};
}

Status ProgramReader::find_payload(const char* backend_id) {
  const et::BackendDelegate* delegate = plan_->delegates()->Get(delegate_);
  if (!equals(delegate->id(), backend_id)) {
    return make_status(Code::kNotSupported, ".pte: delegate call of another backend",
                       static_cast<int32_t>(delegate_));
  }
  const et::BackendDelegateDataReference* processed = delegate->processed();
  if (processed == nullptr) {
    return make_status(Code::kInvalidProgram, ".pte: delegate without data",
                       static_cast<int32_t>(delegate_));
  }
  const uint32_t index = processed->index();
  if (processed->location() == et::DataLocation_SEGMENT) {
    ConstantBytes bytes;
    const Status status = locate_segment(index, &bytes);
    if (!status.ok()) {
      return status;
    }
    payload_ = bytes.data;
    payload_size_ = bytes.size;
  } else if (processed->location() == et::DataLocation_INLINE) {
    if (index >= length_of(program_->backend_delegate_data())) {
      return make_status(Code::kInvalidProgram, ".pte: delegate data index out of range", -1, index,
                         length_of(program_->backend_delegate_data()));
    }
    const auto* data = program_->backend_delegate_data()->Get(index)->data();
    payload_ = data == nullptr ? nullptr : data->data();
    payload_size_ = length_of(data);
  } else {
    return make_status(Code::kInvalidProgram, ".pte: unknown location of delegate data", -1,
                       processed->location());
  }
  if (payload_size_ == 0) {
    return make_status(Code::kInvalidProgram, ".pte: empty delegate data");
  }
  if (!is_aligned(payload_)) {
    return make_status(Code::kInvalidProgram, ".pte: delegate data not aligned to 16 bytes", -1,
                       static_cast<int64_t>(reinterpret_cast<uintptr_t>(payload_) % kAlignment), 0);
  }
  return Status{};
}

Status ProgramReader::check_tensor(int32_t value, int32_t where) const {
  if (value < 0 || static_cast<uint32_t>(value) >= length_of(plan_->values())) {
    return make_status(Code::kInvalidProgram, ".pte: value index out of range", where, value,
                       length_of(plan_->values()));
  }
  const et::EValue* evalue = plan_->values()->Get(static_cast<uint32_t>(value));
  const et::Tensor* tensor = evalue->val_as_Tensor();
  if (tensor == nullptr) {
    return make_status(Code::kNotSupported, ".pte: input or output is not a tensor", where,
                       evalue->val_type(), et::KernelTypes_Tensor);
  }
  if (tensor->shape_dynamism() != et::TensorShapeDynamism_STATIC) {
    return make_status(Code::kNotSupported, ".pte: tensor of dynamic shape", where,
                       tensor->shape_dynamism(), et::TensorShapeDynamism_STATIC);
  }
  const uint32_t rank = length_of(tensor->sizes());
  if (rank > kMaxTensorRank || length_of(tensor->dim_order()) != rank) {
    return make_status(Code::kInvalidProgram, ".pte: tensor rank", where, rank,
                       length_of(tensor->dim_order()));
  }
  if (rank > 0 && !is_permutation(*tensor->dim_order())) {
    return make_status(Code::kInvalidProgram, ".pte: dim order is not a permutation", where);
  }
  uint64_t nbytes = element_size(tensor->scalar_type());
  if (nbytes == 0) {
    return make_status(Code::kNotSupported, ".pte: scalar type", where, tensor->scalar_type());
  }
  for (uint32_t i = 0; i < rank; ++i) {
    const int32_t dim = tensor->sizes()->Get(i);
    if (dim < 0) {
      return make_status(Code::kInvalidProgram, ".pte: negative tensor size", where, dim);
    }
    nbytes *= static_cast<uint32_t>(dim);  // below 2^31 * 2^31: no overflow
    if (nbytes > kMaxProgramBytes) {
      return make_status(Code::kInvalidProgram, ".pte: tensor too large", where,
                         static_cast<int64_t>(nbytes), static_cast<int64_t>(kMaxProgramBytes));
    }
  }
  return Status{};
}

Status ProgramReader::check_arguments() {
  for (uint32_t i = 0; i < num_inputs_ + num_outputs_; ++i) {
    const int32_t value =
        i < num_inputs_ ? plan_->inputs()->Get(i) : plan_->outputs()->Get(i - num_inputs_);
    const Status status = check_tensor(value, static_cast<int32_t>(i));
    if (!status.ok()) {
      return status;
    }
  }
  // An argument that is a program input is read, every other one is written.
  const uint32_t num_arguments = num_delegate_inputs_;
  uint32_t split = 0;
  while (split < num_arguments && position(plan_->inputs(), arguments_[split]) >= 0) {
    ++split;
  }
  num_delegate_inputs_ = split;
  num_delegate_outputs_ = num_arguments - split;
  for (uint32_t i = split; i < num_arguments; ++i) {
    if (position(plan_->inputs(), arguments_[i]) >= 0 ||
        position(plan_->outputs(), arguments_[i]) < 0) {
      return make_status(Code::kNotSupported,
                         ".pte: delegate argument is neither a program input nor an output",
                         static_cast<int32_t>(i), arguments_[i]);
    }
    for (uint32_t k = split; k < i; ++k) {
      if (arguments_[k] == arguments_[i]) {
        return make_status(Code::kInvalidProgram, ".pte: two delegate outputs are one value",
                           static_cast<int32_t>(i), arguments_[i]);
      }
    }
  }
  for (uint32_t i = 0; i < num_outputs_; ++i) {
    if (output_source(i) == num_delegate_outputs_) {
      return make_status(Code::kNotSupported,
                         ".pte: program output is not computed by the delegate",
                         static_cast<int32_t>(i), plan_->outputs()->Get(i));
    }
  }
  return Status{};
}

ProgramTensor ProgramReader::tensor(uint32_t value) const {
  const et::Tensor* tensor = plan_->values()->Get(value)->val_as_Tensor();
  const uint32_t rank = length_of(tensor->sizes());
  size_t nbytes = element_size(tensor->scalar_type());
  for (uint32_t i = 0; i < rank; ++i) {
    nbytes *= static_cast<size_t>(tensor->sizes()->Get(i));
  }
  return ProgramTensor{static_cast<int8_t>(tensor->scalar_type()), static_cast<uint8_t>(rank),
                       rank == 0 ? nullptr : tensor->sizes()->data(),
                       rank == 0 ? nullptr : tensor->dim_order()->data(), nbytes};
}

ProgramTensor ProgramReader::input(uint32_t index) const {
  return tensor(static_cast<uint32_t>(plan_->inputs()->Get(index)));
}

ProgramTensor ProgramReader::output(uint32_t index) const {
  return tensor(static_cast<uint32_t>(plan_->outputs()->Get(index)));
}

uint32_t ProgramReader::delegate_input(uint32_t index) const {
  return static_cast<uint32_t>(position(plan_->inputs(), arguments_[index]));
}

uint32_t ProgramReader::output_source(uint32_t index) const {
  const int32_t value = plan_->outputs()->Get(index);
  for (uint32_t k = 0; k < num_delegate_outputs_; ++k) {
    if (arguments_[num_delegate_inputs_ + k] == value) {
      return k;
    }
  }
  return num_delegate_outputs_;  // open() refuses such a program
}

}  // namespace fused_quant::pte
