// SPDX-License-Identifier: BSD-3-Clause
//
// One attempt of the payload fuzzer: load what may be anything, run it if it loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "status.h"

namespace fused_quant::fuzz {

// What is being tried, for the report of a death.
struct Attempt {
  const uint8_t* data = nullptr;
  size_t size = 0;
  const char* file = "";
  const char* change = "";
  size_t position = 0;
  uint64_t value = 0;
};

struct Totals {
  uint64_t by_code[7] = {};
  uint64_t executed = 0;
  uint64_t too_large = 0;  // accepted, but not executed
};

extern Attempt attempt;
extern Totals totals;

// Says what was tried and leaves the payload in payload_fuzz_crash.fqp.
void report_death();

// Ends the run with a report unless `ok`.
void require(bool ok, const char* what, const Status& status = Status());

// A block of exactly `size` bytes, so that AddressSanitizer sees the first byte beyond it. It
// starts `lead` bytes after a 16-byte boundary.
class Block {
 public:
  explicit Block(size_t size, uint8_t fill = 0, size_t lead = 0);
  uint8_t* data() const { return memory_.get() + lead_; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  std::unique_ptr<uint8_t, Free> memory_;
  size_t lead_;
  size_t size_;
};

// Loads the payload at `data`, checks what the runtime promises about it, and executes it twice
// with different garbage around. Returns the loader's verdict.
Status load_and_run(const uint8_t* data, size_t size);

// As load_and_run, on an aligned copy that ends exactly where the payload does.
Status exercise(const uint8_t* data, size_t size);

}  // namespace fused_quant::fuzz
