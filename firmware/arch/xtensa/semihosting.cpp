// SPDX-License-Identifier: BSD-3-Clause
//
// SIMCALL: number in a2, arguments in a3 to a5, result in a2.
#include "semihosting.h"

#include <cstring>

namespace fused_quant::firmware {
namespace {

enum Operation : uint32_t {
  kExit = 1,
  kRead = 3,
  kWrite = 4,
  kOpen = 5,
  kClose = 6,
  kArgumentCount = 1000,
  kArgumentBytes = 1001,
  kArguments = 1002,
};

constexpr uint32_t kOpenRead = 0;
// QEMU hands the flags to its host, Linux: write only, create, truncate.
constexpr uint32_t kOpenCreate = 01 | 0100 | 01000;

int32_t call(Operation operation, uint32_t first = 0, uint32_t second = 0, uint32_t third = 0) {
  register uint32_t a2 asm("a2") = operation;
  register uint32_t a3 asm("a3") = first;
  register uint32_t a4 asm("a4") = second;
  register uint32_t a5 asm("a5") = third;
  asm volatile("simcall" : "+r"(a2), "+r"(a3) : "r"(a4), "r"(a5) : "memory");
  return static_cast<int32_t>(a2);
}

uint32_t address(const void* pointer) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer));
}

// True if all bytes were moved.
bool move_all(Operation operation, int32_t handle, const void* data, size_t size) {
  uint32_t at = address(data);
  for (size_t left = size; left > 0;) {
    const int32_t moved = call(operation, static_cast<uint32_t>(handle), at, left);
    if (moved <= 0) return false;
    at += static_cast<uint32_t>(moved);
    left -= static_cast<size_t>(moved);
  }
  return true;
}

}  // namespace

void write_console(const char* text) { move_all(kWrite, 1, text, std::strlen(text)); }

bool command_line(char* buffer, size_t size) {
  constexpr uint32_t kMost = 16;
  union {
    uint32_t word[128];
    char text[512];
  } block;
  const auto count = static_cast<uint32_t>(call(kArgumentCount));
  if (count > kMost || static_cast<uint32_t>(call(kArgumentBytes)) > sizeof(block)) return false;
  // Fills in the pointers, a null pointer, and the words they point to.
  call(kArguments, address(&block));
  size_t written = 0;
  for (uint32_t i = 1; i < count; ++i) {  // the first is the program's name
    const auto* text = reinterpret_cast<const char*>(static_cast<uintptr_t>(block.word[i]));
    const size_t length = std::strlen(text);
    if (written + length + 2 > size) return false;
    std::memcpy(buffer + written, text, length);
    written += length;
    buffer[written++] = ' ';
  }
  if (size > 0) buffer[written] = '\0';
  return size > 0;
}

void exit_image(int code) {
  for (;;) {
    call(kExit, static_cast<uint32_t>(code));
  }
}

HostFile::HostFile(const char* path, Mode mode) {
  handle_ = call(kOpen, address(path), mode == Mode::kRead ? kOpenRead : kOpenCreate, 0644);
}

bool HostFile::read(void* data, size_t size) { return move_all(kRead, handle_, data, size); }

bool HostFile::write(const void* data, size_t size) {
  return move_all(kWrite, handle_, data, size);
}

bool HostFile::close() {
  const int32_t result = call(kClose, static_cast<uint32_t>(handle_));
  handle_ = -1;
  return result == 0;
}

}  // namespace fused_quant::firmware

extern "C" [[noreturn]] void fq_exit(int code) { fused_quant::firmware::exit_image(code); }
