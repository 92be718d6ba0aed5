// SPDX-License-Identifier: BSD-3-Clause
//
// Console, files of the host, command line and exit, through the emulator. Arm boards use the calls
// of "Semihosting for AArch32 and AArch64" (Arm IHI 0070), Xtensa the SIMCALL instruction, Linux
// its system calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fused_quant::firmware {

// Exit codes of an image. Anything else, or no verdict line, is a failure as well.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitFault = 3;

// Writes to the console: standard output or standard error of the emulator.
void write_console(const char* text);

// Copies the command line, arguments separated by blanks; false if it does not fit.
bool command_line(char* buffer, size_t size);

// The decimal number `text` starts with; 0 if none.
inline uint32_t parse_number(const char* text) {
  uint32_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    value = value * 10 + static_cast<uint32_t>(*text - '0');
  }
  return value;
}

[[noreturn]] void exit_image(int code);

// A host file in the directory QEMU runs in.
class HostFile {
 public:
  enum class Mode : uint32_t { kRead = 1, kWrite = 5 };  // "rb", "wb"

  HostFile(const char* path, Mode mode);
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;

  bool is_open() const { return handle_ >= 0; }
  // True if all bytes were moved.
  bool read(void* data, size_t size);
  bool write(const void* data, size_t size);
  bool close();

 private:
  int32_t handle_;
};

}  // namespace fused_quant::firmware
