// SPDX-License-Identifier: BSD-3-Clause
#include "semihosting.h"

#include <cstring>

namespace fused_quant::firmware {
namespace {

enum Operation : uint32_t {
  kOpen = 0x01,
  kClose = 0x02,
  kWrite0 = 0x04,
  kWrite = 0x05,
  kRead = 0x06,
  kGetCommandLine = 0x15,
  kExitExtended = 0x20,
};

constexpr uint32_t kApplicationExit = 0x20026;  // ADP_Stopped_ApplicationExit

int32_t call(Operation operation, const void* parameters) {
  register uint32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = parameters;
  asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return static_cast<int32_t>(r0);
}

uint32_t address(const void* pointer) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer));
}

}  // namespace

void write_console(const char* text) { call(kWrite0, text); }

bool command_line(char* buffer, size_t size) {
  uint32_t block[2] = {address(buffer), static_cast<uint32_t>(size)};
  return call(kGetCommandLine, block) == 0;
}

void exit_image(int code) {
  const uint32_t block[2] = {kApplicationExit, static_cast<uint32_t>(code)};
  for (;;) {
    call(kExitExtended, block);
  }
}

HostFile::HostFile(const char* path, Mode mode) {
  const uint32_t block[3] = {address(path), static_cast<uint32_t>(mode),
                             static_cast<uint32_t>(std::strlen(path))};
  handle_ = call(kOpen, block);
}

bool HostFile::read(void* data, size_t size) {
  const uint32_t block[3] = {static_cast<uint32_t>(handle_), address(data),
                             static_cast<uint32_t>(size)};
  return size == 0 || call(kRead, block) == 0;  // the result is the number of bytes not read
}

bool HostFile::write(const void* data, size_t size) {
  const uint32_t block[3] = {static_cast<uint32_t>(handle_), address(data),
                             static_cast<uint32_t>(size)};
  return size == 0 || call(kWrite, block) == 0;
}

bool HostFile::close() {
  const uint32_t block[1] = {static_cast<uint32_t>(handle_)};
  handle_ = -1;
  return call(kClose, block) == 0;
}

}  // namespace fused_quant::firmware

extern "C" [[noreturn]] void fq_exit(int code) { fused_quant::firmware::exit_image(code); }
