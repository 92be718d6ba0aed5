// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/hifi/dot.h"
#include "kernels/linear/linear.h"

namespace fused_quant {

void linear_s8_xtensa_hifi(const Step& step) {
  using namespace hifi;
  const auto& p = step.params<LinearParams>();
  const int8_t* x = step.input<int8_t>(0);
  const int8_t* weight = step.input<int8_t>(1);
  const int32_t* bias = p.has_bias ? step.input<int32_t>(2) : nullptr;
  void* y = step.output<void>(0);
  uint32_t index = 0;
  for (uint32_t r = 0; r < p.rows; ++r, x += p.in_c) {
    const int8_t* w = weight;
    for (uint32_t o = 0; o < p.out_c; ++o, ++index, w += p.in_c) {
      ae_int64 acc = widened(bias == nullptr ? 0 : bias[o]);
      accumulate(acc, x, w, p.in_c);
      store(p.output, y, index, acc, o);
    }
  }
}

}  // namespace fused_quant
