// SPDX-License-Identifier: BSD-3-Clause
//
// The lines an image prints: "FQ key=value key=value", read by firmware/board.py. The last one is
// always a verdict.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fused_quant::firmware {

// Collects one line and prints it with a single semihosting call.
class Line {
 public:
  Line();
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  Line& add(const char* key, uint64_t value);
  Line& add_signed(const char* key, int64_t value);
  Line& add_hex(const char* key, uint32_t value);
  // `text` may hold blanks only if it is the last value of the line.
  Line& add_text(const char* key, const char* text);

 private:
  void append(const char* text);
  void append_key(const char* key);
  void append_number(uint64_t value);

  static constexpr size_t kCapacity = 200;  // longer lines are cut
  char text_[kCapacity];
  size_t length_ = 0;
};

// Prints the verdict line; `passed` decides the text. Returns the exit code for main().
int verdict(bool passed);

}  // namespace fused_quant::firmware
