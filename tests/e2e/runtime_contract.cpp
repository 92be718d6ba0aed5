// SPDX-License-Identifier: BSD-3-Clause
//
// What only C++ can observe of a program in the ExecuTorch runtime: that execution takes nothing
// from the heap, and that threads with a module each do not meet.
//
//   runtime_contract <model.pte> <input bytes> <expected output bytes>
//
// The method has one input and one output. Prints one line per observation.

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/executor/method.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

// Every allocation of the process passes here: this program defines the allocator's entry points
// and hands on to the C library's own.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);
uint32_t fused_quant_register_backend(void);
}

namespace {

thread_local bool counting = false;
thread_local uint64_t allocations = 0;

void note() {
  if (counting) ++allocations;
}

}  // namespace

extern "C" {
void* malloc(size_t size) {
  note();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  note();
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  note();
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  note();
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? 12 : 0;  // ENOMEM
}
void free(void* block) {
  if (block != nullptr) note();
  __libc_free(block);
}
}

namespace {

using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Method;

constexpr int kThreads = 8;
constexpr int kRuns = 25;

using Bytes = std::vector<uint8_t>;

Bytes read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A loaded "forward" with its input bound.
class Loaded {
 public:
  Loaded(const char* path, const Bytes& input) : module_(path) {
    if (module_.load_forward() != Error::Ok) return;
    const auto method = module_.method("forward");
    if (!method.ok()) return;
    const auto info = (*method)->method_meta().input_tensor_meta(0);
    if (!info.ok() || info->nbytes() != input.size()) return;
    tensor_ = executorch::extension::make_tensor_ptr(
        {info->sizes().begin(), info->sizes().end()}, input,
        {info->dim_order().begin(), info->dim_order().end()}, {}, info->scalar_type());
    if ((*method)->set_input(EValue(tensor_), 0) == Error::Ok) method_ = *method;
  }

  bool ok() const { return method_ != nullptr; }
  Error execute() { return method_->execute(); }

  bool gives(const Bytes& expected) const {
    const auto& tensor = method_->get_output(0).toTensor();
    return tensor.nbytes() == expected.size() &&
           std::memcmp(tensor.const_data_ptr(), expected.data(), expected.size()) == 0;
  }

 private:
  Module module_;
  TensorPtr tensor_;
  Method* method_ = nullptr;
};

// Calls of the allocator during `runs` executions, or -1 after a failure.
long allocations_of(Loaded* loaded, const Bytes& expected, int runs) {
  allocations = 0;
  for (int i = 0; i < runs; ++i) {
    counting = true;
    const Error error = loaded->execute();
    counting = false;
    if (error != Error::Ok || !loaded->gives(expected)) return -1;
  }
  return static_cast<long>(allocations);
}

// The trap works: an allocation in this thread is seen.
bool trap_works() {
  allocations = 0;
  counting = true;
  void* volatile block = malloc(1);
  free(block);
  counting = false;
  return allocations == 2;
}

// Threads that each load a module of their own and run it, or only load and drop it.
int failures_of_threads(const char* path, const Bytes& input, const Bytes& expected) {
  std::atomic<int> failures{0};
  const auto body = [&](int index) {
    const bool reload = index % 2 == 1;
    for (int round = 0; round < (reload ? kRuns : 1); ++round) {
      Loaded loaded(path, input);
      if (!loaded.ok()) {
        ++failures;
        return;
      }
      for (int i = 0; i < (reload ? 1 : kRuns); ++i) {
        if (loaded.execute() != Error::Ok || !loaded.gives(expected)) ++failures;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || fused_quant_register_backend() != 0) return 2;
  const Bytes input = read_file(argv[2]);
  const Bytes expected = read_file(argv[3]);
  Loaded loaded(argv[1], input);
  if (!loaded.ok()) return 3;
  std::printf("trap works: %d\n", trap_works() ? 1 : 0);
  if (allocations_of(&loaded, expected, 1) < 0) return 4;  // anything lazy happens here
  std::printf("allocations: %ld\n", allocations_of(&loaded, expected, kRuns));
  std::printf("thread failures: %d\n", failures_of_threads(argv[1], input, expected));
  return 0;
}
