// SPDX-License-Identifier: BSD-3-Clause

#include "strided_loop.h"

#include <gtest/gtest.h>

#include <vector>

namespace fused_quant {
namespace {

// The input offset of every output element.
std::vector<uint32_t> walk(const StridedLoop<1>& loop) {
  std::vector<uint32_t> order;
  for_each_row(loop, [&](uint32_t to, const uint32_t(&from)[1], uint32_t length) {
    EXPECT_EQ(to, order.size());
    for (uint32_t i = 0; i < length; ++i) {
      order.push_back(from[0] + i * loop.stride[0][loop.rank - 1]);
    }
  });
  return order;
}

TEST(StridedLoop, OnlySizesOfOne) {
  StridedLoop<1> loop;
  loop.append(1, {7});
  loop.append(1, {3});
  loop.finish();
  EXPECT_EQ(walk(loop), std::vector<uint32_t>{0});
}

TEST(StridedLoop, ContiguousDimensionsBecomeOneRow) {
  StridedLoop<1> loop;
  loop.append(2, {12});
  loop.append(3, {4});
  loop.append(1, {99});
  loop.append(4, {1});
  loop.finish();
  EXPECT_EQ(loop.rank, 1u);
  EXPECT_EQ(loop.dim[0], 24u);
}

TEST(StridedLoop, TransposeVisitsEveryElement) {
  StridedLoop<1> loop;  // [2, 3, 4] read as [4, 2, 3]
  loop.append(4, {1});
  loop.append(2, {12});
  loop.append(3, {4});
  loop.finish();
  std::vector<uint32_t> expected;
  for (uint32_t c = 0; c < 4; ++c) {
    for (uint32_t a = 0; a < 2; ++a) {
      for (uint32_t b = 0; b < 3; ++b) expected.push_back(a * 12 + b * 4 + c);
    }
  }
  EXPECT_EQ(walk(loop), expected);
}

TEST(StridedLoop, BroadcastDimensionsMergeOnlyTogether) {
  StridedLoop<2> loop;
  loop.append(5, {6, 0});
  loop.append(2, {3, 0});
  loop.append(3, {1, 1});
  loop.finish();
  EXPECT_EQ(loop.rank, 2u);
  std::vector<uint32_t> second;
  for_each_row(loop, [&](uint32_t to, const uint32_t(&from)[2], uint32_t length) {
    EXPECT_EQ(from[0], to);
    EXPECT_EQ(length, 3u);
    second.push_back(from[1]);
  });
  EXPECT_EQ(second, std::vector<uint32_t>(10, 0));
}

}  // namespace
}  // namespace fused_quant
