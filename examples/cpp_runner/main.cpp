// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the method "forward" of a .pte through ExecuTorch's Module. Inputs are files of raw bytes in
// the tensors' own memory order; outputs are written the same way to output_<i>.bin in the current
// folder, and described on stdout.
//
//   cpp_runner <model.pte> <input 0> <input 1> ...

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <fused_quant/fused_quant_backend.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::TensorInfo;

int fail(const std::string& what, Error error) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), executorch::runtime::to_string(error));
  return 1;
}

// Contents of the file `path`; empty if it cannot be read.
std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A tensor as the program describes its input, over a copy of `bytes`; null if the size differs.
TensorPtr make_input(const TensorInfo& info, std::vector<uint8_t> bytes) {
  if (bytes.size() != info.nbytes()) {
    std::fprintf(stderr, "got %zu bytes, the input has %zu\n", bytes.size(), info.nbytes());
    return nullptr;
  }
  return executorch::extension::make_tensor_ptr(
      {info.sizes().begin(), info.sizes().end()}, std::move(bytes),
      {info.dim_order().begin(), info.dim_order().end()}, {}, info.scalar_type());
}

int write_output(size_t index, const EValue& value) {
  const auto& tensor = value.toTensor();
  const std::string path = "output_" + std::to_string(index) + ".bin";
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(tensor.const_data_ptr()),
             static_cast<std::streamsize>(tensor.nbytes()));
  std::printf("%s: %zu bytes, shape", path.c_str(), static_cast<size_t>(tensor.nbytes()));
  for (const auto size : tensor.sizes()) std::printf(" %ld", static_cast<long>(size));
  std::printf("\n");
  return file.good() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s <model.pte> <input file>...\n", argv[0]);
    return 2;
  }
  std::printf("fused_quant %s for ExecuTorch %s\n", fused_quant_version(),
              fused_quant_executorch_version());
  Module module(argv[1]);
  const auto meta = module.method_meta("forward");
  if (!meta.ok()) return fail("cannot load the program", meta.error());
  if (meta->num_inputs() != static_cast<size_t>(argc) - 2) {
    std::fprintf(stderr, "the program has %zu inputs, got %d files\n", meta->num_inputs(),
                 argc - 2);
    return 2;
  }
  std::vector<TensorPtr> tensors;
  std::vector<EValue> inputs;
  for (size_t i = 0; i < meta->num_inputs(); ++i) {
    const auto info = meta->input_tensor_meta(i);
    if (!info.ok()) return fail("input " + std::to_string(i), info.error());
    tensors.push_back(make_input(*info, read_file(argv[i + 2])));
    if (tensors.back() == nullptr) return 2;
    inputs.emplace_back(tensors.back());
  }
  const auto outputs = module.forward(inputs);
  if (!outputs.ok()) return fail("forward", outputs.error());
  for (size_t i = 0; i < outputs->size(); ++i) {
    if (write_output(i, outputs->at(i)) != 0) return 1;
  }
  return 0;
}
