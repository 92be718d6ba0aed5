// SPDX-License-Identifier: BSD-3-Clause
//
// Hostile payloads against the core, under AddressSanitizer and UndefinedBehaviorSanitizer.
//
//   fused_quant_payload_fuzz [--seconds S] [--seed N] [refuse FILE...] [accept FILE...] [vary
//   FILE...]
//
// Each `refuse` file must be refused; each `accept` and `vary` file must load and run. A `vary`
// file is then cut at every length, put at every misalignment, and changed in every bit and, with a
// list of telling values, in every byte, half word and word; after that, until S seconds are over,
// in several places at once. Whatever loads is executed twice, in exactly sized blocks and with
// different garbage in the arena: outputs must agree. A sanitizer report or a broken promise ends
// the run with the payload in payload_fuzz_crash.fqp.
//
// With -DFUSED_QUANT_LIBFUZZER this file is a libFuzzer target instead.

#include "exercise.h"

#include <sanitizer/common_interface_defs.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "payload.h"

using fused_quant::Status;
using fused_quant::fuzz::attempt;
using fused_quant::fuzz::Block;
using fused_quant::fuzz::exercise;
using fused_quant::fuzz::load_and_run;
using fused_quant::fuzz::require;
using fused_quant::fuzz::totals;

#ifdef FUSED_QUANT_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  exercise(data, size);
  return 0;
}

#else

namespace {

using Bytes = std::vector<uint8_t>;

// Limits of the types, what a check may forget (zero, one, beyond the limits of ranks and shifts),
// and the float32 values NaN, infinity, -infinity and -0. Bit flips give the neighbours.
constexpr uint8_t kByteValues[] = {0, 1, 127, 128, 200, 255};
constexpr uint16_t kHalfValues[] = {0, 0x7fff, 0xffff};
constexpr uint32_t kWordValues[] = {0,          1,          2,          16,         200,
                                    0xffff,     0x40000000, 0x7fffffff, 0x80000000, 0xfffffff0,
                                    0xfffffffe, 0xffffffff, 0x7fc00000, 0x7f800000, 0xff800000};

void describe(const char* change, size_t position, uint64_t value) {
  attempt.change = change;
  attempt.position = position;
  attempt.value = value;
}

template <typename T, size_t N>
void try_values(Bytes* bytes, const T (&values)[N], const char* change) {
  for (size_t at = 0; at + sizeof(T) <= bytes->size(); at += sizeof(T)) {
    T original;
    std::memcpy(&original, bytes->data() + at, sizeof(T));
    for (const T value : values) {
      if (value == original) continue;
      describe(change, at, value);
      std::memcpy(bytes->data() + at, &value, sizeof(T));
      exercise(bytes->data(), bytes->size());
    }
    std::memcpy(bytes->data() + at, &original, sizeof(T));
  }
}

// Every single change of the kinds this program knows.
void try_single_changes(Bytes bytes) {
  for (size_t size = 0; size < bytes.size(); ++size) {
    describe("cut", size, 0);
    const Status status = exercise(bytes.data(), size);
    require(!status.ok(), "a payload that was cut short is accepted");
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      describe("bit flip", at, static_cast<uint64_t>(bit));
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1 << bit));
      exercise(bytes.data(), bytes.size());
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1 << bit));
    }
  }
  try_values(&bytes, kByteValues, "byte");
  try_values(&bytes, kHalfValues, "half word");
  try_values(&bytes, kWordValues, "word");
}

void try_misaligned(const Bytes& bytes) {
  for (size_t shift = 1; shift < fused_quant::kAlignment; ++shift) {
    describe("misaligned base", shift, 0);
    Block block(bytes.size() + shift);
    std::memcpy(block.data() + shift, bytes.data(), bytes.size());
    attempt.data = block.data() + shift;
    attempt.size = bytes.size();
    require(!load_and_run(block.data() + shift, bytes.size()).ok(), "misaligned base is accepted");
  }
}

// Two to five random changes: telling values, or a word copied from elsewhere in the payload.
void change_at_random(Bytes* bytes, std::mt19937* random) {
  const auto below = [random](size_t limit) { return (*random)() % limit; };
  for (size_t changes = 2 + below(4); changes > 0; --changes) {
    const size_t at = below(bytes->size() / 4) * 4;
    uint32_t word = 0;
    switch (below(4)) {
      case 0:
        std::memcpy(&word, bytes->data() + below(bytes->size() / 4) * 4, 4);
        break;
      case 1:
        std::memcpy(&word, bytes->data() + at, 4);
        word += static_cast<uint32_t>(below(9)) - 4;
        break;
      case 2:
        word = kWordValues[below(std::size(kWordValues))];
        break;
      default:
        std::memcpy(&word, bytes->data() + at, 4);
        word ^= uint32_t{kByteValues[below(std::size(kByteValues))]} << (8 * below(4));
    }
    std::memcpy(bytes->data() + at, &word, 4);
  }
}

Bytes read_file(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    std::fprintf(stderr, "payload_fuzz: cannot read %s\n", path);
    std::exit(2);
  }
  return Bytes(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
}

struct Corpus {
  std::vector<std::string> names;
  std::vector<Bytes> payloads;
};

void try_at_random(const Corpus& corpus, unsigned seed, std::chrono::steady_clock::time_point end) {
  std::mt19937 random(seed);
  for (uint64_t round = 0; std::chrono::steady_clock::now() < end; ++round) {
    const size_t index = round % corpus.payloads.size();
    attempt.file = corpus.names[index].c_str();
    Bytes bytes = corpus.payloads[index];
    change_at_random(&bytes, &random);
    describe("random changes, round", static_cast<size_t>(round), seed);
    exercise(bytes.data(), bytes.size());
  }
}

// Prints the verdict on each payload. Returns whether all were refused.
bool try_refused(const Corpus& corpus) {
  bool all_refused = true;
  for (size_t i = 0; i < corpus.payloads.size(); ++i) {
    attempt.file = corpus.names[i].c_str();
    describe("as it is", 0, 0);
    const Status status = exercise(corpus.payloads[i].data(), corpus.payloads[i].size());
    std::printf("%s: code %d where %d: %s\n", attempt.file, static_cast<int>(status.code),
                status.where, status.what);
    all_refused = all_refused && !status.ok();
  }
  return all_refused;
}

void try_accepted(const Corpus& corpus) {
  for (size_t i = 0; i < corpus.payloads.size(); ++i) {
    attempt.file = corpus.names[i].c_str();
    describe("as it is", 0, 0);
    const uint64_t executed = totals.executed;
    const Status status = exercise(corpus.payloads[i].data(), corpus.payloads[i].size());
    require(status.ok(), "a valid payload is refused", status);
    require(totals.executed == executed + 1, "a valid payload is not executed");
  }
}

void try_variations(const Corpus& corpus) {
  for (size_t i = 0; i < corpus.payloads.size(); ++i) {
    attempt.file = corpus.names[i].c_str();
    try_misaligned(corpus.payloads[i]);
    try_single_changes(corpus.payloads[i]);
  }
}

void print_totals(std::chrono::duration<double> time) {
  uint64_t loads = 0;
  for (const uint64_t count : totals.by_code) loads += count;
  std::printf("loads %" PRIu64 " accepted %" PRIu64 " executed %" PRIu64 " too_large %" PRIu64
              " incompatible %" PRIu64 " invalid %" PRIu64 " missing %" PRIu64 " seconds %.1f\n",
              loads, totals.by_code[0], totals.executed, totals.too_large, totals.by_code[1],
              totals.by_code[2], totals.by_code[3], time.count());
}

}  // namespace

int main(int argc, char** argv) {
  __sanitizer_set_death_callback(fused_quant::fuzz::report_death);
  double seconds = 0;
  unsigned seed = 1;
  Corpus refused;
  Corpus accepted;
  Corpus varied;
  Corpus* corpus = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (argument == "refuse") {
      corpus = &refused;
    } else if (argument == "accept") {
      corpus = &accepted;
    } else if (argument == "vary") {
      corpus = &varied;
    } else if (corpus != nullptr) {
      corpus->names.push_back(argument);
      corpus->payloads.push_back(read_file(argv[i]));
    } else {
      std::fprintf(stderr, "payload_fuzz: unexpected argument %s\n", argv[i]);
      return 2;
    }
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const std::chrono::duration<double> limit(seconds);
  const bool all_refused = try_refused(refused);
  try_accepted(accepted);
  try_accepted(varied);
  try_variations(varied);
  if (!varied.payloads.empty()) {
    try_at_random(varied, seed, start + std::chrono::duration_cast<Clock::duration>(limit));
  }
  print_totals(Clock::now() - start);
  return all_refused ? 0 : 1;
}

#endif
