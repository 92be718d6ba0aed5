// SPDX-License-Identifier: BSD-3-Clause
//
// 1 / sqrt by a table whose entries the compiler works out in integers.
//
//   T[i] = round(32767 / sqrt(i / 128)), 128 <= i <= 512
//   reciprocal_root(a) = ((T[i] << 7) + (T[i + 1] - T[i]) * (a & 127) + 64) >> 7,  i = a >> 7
#pragma once

#include <cstdint>

namespace fused_quant {

constexpr uint32_t kRootFirst = 128;
constexpr uint32_t kRootLast = 512;

// The nearest integer to 32767 / sqrt(index / 128): the largest r with
// (2 * r - 1)^2 * index <= 4 * 128 * 32767^2.
constexpr int16_t root_entry(uint32_t index) {
  constexpr uint64_t kTarget = uint64_t{512} * 32767 * 32767;
  uint64_t low = 0;
  uint64_t high = 32768;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    const uint64_t odd = 2 * middle - 1;
    (odd * odd * index <= kTarget ? low : high) = middle;
  }
  return static_cast<int16_t>(low);
}

struct RootTable {
  int16_t entry[kRootLast - kRootFirst + 1] = {};
  constexpr RootTable() {
    for (uint32_t i = kRootFirst; i <= kRootLast; ++i) entry[i - kRootFirst] = root_entry(i);
  }
};

constexpr RootTable kRootTable;
static_assert(kRootTable.entry[0] == 32767, "1 / sqrt(1)");

// 2^14 <= a < 2^16: 32767 / sqrt(a / 2^14).
inline int32_t reciprocal_root(uint32_t a) {
  const int16_t* entry = kRootTable.entry + ((a >> 7) - kRootFirst);
  const int32_t fraction = static_cast<int32_t>(a & 127);
  return (entry[0] * 128 + (entry[1] - entry[0]) * fraction + 64) >> 7;
}

}  // namespace fused_quant
