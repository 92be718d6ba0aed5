// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include "semihosting.h"

namespace fused_quant::firmware {

Line::Line() { append("FQ"); }

Line::~Line() {
  text_[length_] = '\n';
  text_[length_ + 1] = '\0';
  write_console(text_);
}

void Line::append(const char* text) {
  while (*text != '\0' && length_ < kCapacity - 2) {
    text_[length_++] = *text++;
  }
}

void Line::append_key(const char* key) {
  append(" ");
  append(key);
  append("=");
}

void Line::append_number(uint64_t value) {
  char digits[21];
  size_t at = sizeof(digits) - 1;
  digits[at] = '\0';
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  append(digits + at);
}

Line& Line::add(const char* key, uint64_t value) {
  append_key(key);
  append_number(value);
  return *this;
}

Line& Line::add_signed(const char* key, int64_t value) {
  append_key(key);
  if (value < 0) {
    append("-");
  }
  const uint64_t bits = static_cast<uint64_t>(value);
  append_number(value < 0 ? 0 - bits : bits);
  return *this;
}

Line& Line::add_hex(const char* key, uint32_t value) {
  append_key(key);
  char digits[11] = "0x";
  for (int i = 0; i < 8; ++i) {
    digits[2 + i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15u];
  }
  digits[10] = '\0';
  append(digits);
  return *this;
}

Line& Line::add_text(const char* key, const char* text) {
  append_key(key);
  append(text);
  return *this;
}

int verdict(bool passed) {
  Line().add_text("verdict", passed ? "ok" : "failed");
  return passed ? kExitOk : kExitFailed;
}

}  // namespace fused_quant::firmware
