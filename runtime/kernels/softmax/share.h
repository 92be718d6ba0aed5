// SPDX-License-Identifier: BSD-3-Clause
//
// The last step of softmax and masked_softmax: an exponential's share of a row's sum.
#pragma once

#include <cstdint>

#include "numerics/bits.h"

namespace fused_quant {

// e / sum in units of 1/256, for a row whose exponentials add up to `sum`, 1..2^31 - 1.
struct Share {
  uint32_t reciprocal;
  uint32_t shift;  // 14..30, behind the shift by 8; 0 <= e <= sum

  explicit Share(uint32_t sum) {
    const uint32_t zeros = leading_zeros(sum);
    reciprocal = 0x7fffffffu / (((sum << (zeros - 1)) + (1u << 14)) >> 15);
    shift = 31 - zeros;
  }

  // Shifting by 8 first changes nothing: the rounding term is a multiple of 2^8. The product stays
  // below 2^31.
  int32_t operator()(int16_t e) const {
    const uint32_t product = static_cast<uint32_t>(e) * reciprocal;
    const uint32_t share = ((product >> 8) + (1u << (shift - 1))) >> shift;
    return static_cast<int32_t>(share < 255 ? share : 255);
  }
};

}  // namespace fused_quant
