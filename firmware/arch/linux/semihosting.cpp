// SPDX-License-Identifier: BSD-3-Clause
#include "semihosting.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

extern "C" {
// An empty stack: both ends are one place.
uint32_t fq_stack_top[1];
extern uint32_t fq_stack_bottom[1] __attribute__((alias("fq_stack_top")));
}

namespace fused_quant::firmware {
namespace {

// True if all bytes were moved.
template <typename Move>
bool move_all(size_t size, Move move) {
  for (size_t done = 0; done < size;) {
    const ssize_t moved = move(done, size - done);
    if (moved <= 0) return false;
    done += static_cast<size_t>(moved);
  }
  return true;
}

}  // namespace

void write_console(const char* text) {
  move_all(std::strlen(text),
           [&](size_t at, size_t count) { return ::write(1, text + at, count); });
}

bool command_line(char* buffer, size_t size) {
  const int file = ::open("/proc/self/cmdline", O_RDONLY);
  char words[256];
  const ssize_t length = ::read(file, words, sizeof(words));
  ::close(file);
  if (length <= 0 || length == static_cast<ssize_t>(sizeof(words))) return false;
  size_t at = std::strlen(words) + 1;  // behind the program's name
  size_t written = 0;
  for (; at < static_cast<size_t>(length); ++at, ++written) {
    if (written + 1 >= size) return false;
    buffer[written] = words[at] == '\0' ? ' ' : words[at];
  }
  if (size > 0) buffer[written] = '\0';
  return size > 0;
}

void exit_image(int code) { ::_exit(code); }

HostFile::HostFile(const char* path, Mode mode) {
  handle_ = mode == Mode::kRead ? ::open(path, O_RDONLY)
                                : ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
}

bool HostFile::read(void* data, size_t size) {
  auto* bytes = static_cast<char*>(data);
  return move_all(size,
                  [&](size_t at, size_t count) { return ::read(handle_, bytes + at, count); });
}

bool HostFile::write(const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  return move_all(size,
                  [&](size_t at, size_t count) { return ::write(handle_, bytes + at, count); });
}

bool HostFile::close() {
  const int result = ::close(handle_);
  handle_ = -1;
  return result == 0;
}

}  // namespace fused_quant::firmware
