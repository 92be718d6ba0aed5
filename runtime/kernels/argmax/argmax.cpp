// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/argmax/argmax.h"

#include "kernels/reduce/reduce.h"
#include "op_check.h"

namespace fused_quant {
namespace {

struct ArgmaxParams {
  ReduceLoops loops;
  bool wide;  // 16-bit codes
};

template <typename T>
void argmax(const Step& step) {
  const auto& p = step.params<ArgmaxParams>().loops;
  const T* x = step.input<T>(0);
  int64_t* y = step.output<int64_t>(0);
  for_each_offset(p.kept, [&](uint32_t start) {
    T largest = x[start];
    int32_t where = 0;
    int32_t position = 0;
    for_each_offset(p.reduced, [&](uint32_t offset) {
      if (x[start + offset] > largest) {
        largest = x[start + offset];
        where = position;
      }
      ++position;
    });
    *y++ = where;
  });
}

}  // namespace

Status prepare_argmax(const OpContext& context, void* params, Prepared* prepared) {
  FQ_RETURN_IF_ERROR(check_operand_counts(context, 1, 1, 1));
  const auto* given = context.params<schema::ReduceParams>();
  if (given == nullptr) return context.invalid("argmax without ReduceParams");
  const TensorView x = context.input(0);
  const TensorView y = context.output(0);
  FQ_RETURN_IF_ERROR(check_signed(context, x, "input dtype"));
  FQ_RETURN_IF_ERROR(check_dtype(context, y, schema::DType_s64, "output dtype"));
  uint32_t mask = 0;
  FQ_RETURN_IF_ERROR(read_axes(context, given->axes(), x.rank, &mask));
  FQ_RETURN_IF_ERROR(check_reduced_shape(context, x, y, mask));
  auto* p = new_params<ArgmaxParams>(params, prepared);
  p->loops = reduce_loops(x, mask);
  p->wide = x.dtype == schema::DType_s16;
  return Status();
}

void argmax_scalar(const Step& step) {
  step.params<ArgmaxParams>().wide ? argmax<int16_t>(step) : argmax<int8_t>(step);
}

}  // namespace fused_quant
