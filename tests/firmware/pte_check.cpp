// SPDX-License-Identifier: BSD-3-Clause
//
// pte_check show FILE METHOD SHIFT BACKEND_ID KEY   what the reader finds, as one JSON line
// pte_check mutate FILE KEY                         every truncation and single bit flip of FILE
//
// The file is copied into a block of exactly its size, so that AddressSanitizer sees any read
// beyond it. A mutated file must give an error or a view that stays inside the file.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "pte/program_reader.h"

namespace {

using fused_quant::ConstantBytes;
using fused_quant::ConstantSource;
using fused_quant::Status;
using fused_quant::pte::ProgramReader;
using fused_quant::pte::ProgramTensor;

struct Free {
  void operator()(void* pointer) const { std::free(pointer); }
};

// malloc aligns to 16, and its red zone starts right behind `size` bytes.
std::unique_ptr<uint8_t, Free> exact_copy(const std::vector<uint8_t>& data, size_t size) {
  std::unique_ptr<uint8_t, Free> copy(static_cast<uint8_t*>(std::malloc(size == 0 ? 1 : size)));
  if (size > 0) std::memcpy(copy.get(), data.data(), size);
  return copy;
}

std::vector<uint8_t> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void print_tensor(const char* separator, const ProgramTensor& tensor) {
  std::printf("%s{\"scalar_type\": %d, \"nbytes\": %zu, \"sizes\": [", separator,
              tensor.scalar_type, tensor.nbytes);
  for (uint32_t i = 0; i < tensor.rank; ++i) std::printf(i ? ", %d" : "%d", tensor.sizes[i]);
  std::printf("], \"dim_order\": [");
  for (uint32_t i = 0; i < tensor.rank; ++i) std::printf(i ? ", %d" : "%d", tensor.dim_order[i]);
  std::printf("]}");
}

ConstantBytes find_constant(ProgramReader* reader, const char* key) {
  const ConstantSource source = reader->constants();
  return source.find(source.context, key, std::strlen(key));
}

int show(const std::vector<uint8_t>& data, const char* method, size_t shift, const char* id,
         const char* key) {
  const std::vector<uint8_t> shifted = [&] {
    std::vector<uint8_t> bytes(shift, 0);
    bytes.insert(bytes.end(), data.begin(), data.end());
    return bytes;
  }();
  const auto copy = exact_copy(shifted, shifted.size());
  const uint8_t* file = copy.get() + shift;
  ProgramReader reader;
  const Status status = ProgramReader::open(file, data.size(), &reader, method, id);
  if (!status.ok()) {
    std::printf("{\"code\": %d, \"what\": \"%s\", \"where\": %d, \"got\": %" PRId64
                ", \"expected\": %" PRId64 "}\n",
                static_cast<int>(status.code), status.what, status.where, status.got,
                status.expected);
    return 0;
  }
  const auto* payload = static_cast<const uint8_t*>(reader.payload());
  std::printf("{\"code\": 0, \"offset\": %td, \"size\": %zu, ", payload - file,
              reader.payload_size());
  const ConstantBytes constant = find_constant(&reader, key);
  if (constant.data != nullptr) {
    std::printf("\"constant\": [%td, %zu], ", static_cast<const uint8_t*>(constant.data) - file,
                constant.size);
  }
  std::printf("\"delegate_inputs\": [");
  for (uint32_t i = 0; i < reader.num_delegate_inputs(); ++i) {
    std::printf(i ? ", %u" : "%u", reader.delegate_input(i));
  }
  std::printf("], \"delegate_outputs\": %u, \"output_sources\": [", reader.num_delegate_outputs());
  for (uint32_t i = 0; i < reader.num_outputs(); ++i) {
    std::printf(i ? ", %u" : "%u", reader.output_source(i));
  }
  std::printf("], \"inputs\": [");
  for (uint32_t i = 0; i < reader.num_inputs(); ++i) print_tensor(i ? ", " : "", reader.input(i));
  std::printf("], \"outputs\": [");
  for (uint32_t i = 0; i < reader.num_outputs(); ++i) print_tensor(i ? ", " : "", reader.output(i));
  std::printf("]}\n");
  return 0;
}

bool touch(const ProgramTensor& tensor) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[i] < 0 || tensor.dim_order[i] >= tensor.rank) return false;
    sum += static_cast<uint64_t>(tensor.sizes[i]);
  }
  return tensor.nbytes < 0x80000000u && (tensor.nbytes == 0 || sum >= tensor.rank);
}

// Uses everything an accepted file offers; false if something is out of range.
bool consistent(const ProgramReader& reader, const uint8_t* file, size_t size) {
  const auto* payload = static_cast<const uint8_t*>(reader.payload());
  if (payload < file || reader.payload_size() == 0 ||
      payload + reader.payload_size() > file + size ||
      reinterpret_cast<uintptr_t>(payload) % 16 != 0) {
    return false;
  }
  volatile uint8_t sink = 0;
  for (size_t i = 0; i < reader.payload_size(); ++i) sink = payload[i];
  (void)sink;
  for (uint32_t i = 0; i < reader.num_inputs(); ++i) {
    if (!touch(reader.input(i))) return false;
  }
  for (uint32_t i = 0; i < reader.num_outputs(); ++i) {
    if (!touch(reader.output(i)) || reader.output_source(i) >= reader.num_delegate_outputs()) {
      return false;
    }
  }
  for (uint32_t i = 0; i < reader.num_delegate_inputs(); ++i) {
    if (reader.delegate_input(i) >= reader.num_inputs()) return false;
  }
  return true;
}

// 1 accepted, 0 refused, -1 accepted although inconsistent.
int try_open(const std::vector<uint8_t>& data, size_t size, const char* key) {
  const auto copy = exact_copy(data, size);
  ProgramReader reader;
  if (!ProgramReader::open(copy.get(), size, &reader).ok()) {
    return reader.payload() == nullptr ? 0 : -1;
  }
  const ConstantBytes constant = find_constant(&reader, key);
  const auto* bytes = static_cast<const uint8_t*>(constant.data);
  volatile uint8_t sink = 0;
  for (size_t i = 0; bytes != nullptr && i < constant.size; ++i) sink = bytes[i];
  static_cast<void>(sink);
  return consistent(reader, copy.get(), size) ? 1 : -1;
}

int mutate(std::vector<uint8_t> data, const char* key) {
  size_t truncations_accepted = 0;
  size_t flips_accepted = 0;
  for (size_t size = 0; size < data.size(); ++size) {
    const int result = try_open(data, size, key);
    if (result < 0) return 1;
    truncations_accepted += static_cast<size_t>(result);
  }
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    const auto mask = static_cast<uint8_t>(1u << bit % 8);
    data[bit / 8] = static_cast<uint8_t>(data[bit / 8] ^ mask);
    const int result = try_open(data, data.size(), key);
    data[bit / 8] = static_cast<uint8_t>(data[bit / 8] ^ mask);
    if (result < 0) return 1;
    flips_accepted += static_cast<size_t>(result);
  }
  std::printf(
      "{\"truncations\": %zu, \"truncations_accepted\": %zu, \"flips\": %zu, "
      "\"flips_accepted\": %zu}\n",
      data.size(), truncations_accepted, data.size() * 8, flips_accepted);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 7 && std::strcmp(argv[1], "show") == 0) {
    return show(read_file(argv[2]), argv[3], std::strtoul(argv[4], nullptr, 10), argv[5], argv[6]);
  }
  if (argc == 4 && std::strcmp(argv[1], "mutate") == 0) return mutate(read_file(argv[2]), argv[3]);
  std::fprintf(stderr,
               "usage: pte_check show FILE METHOD SHIFT BACKEND_ID KEY | mutate FILE KEY\n");
  return 2;
}
