/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The runtime core behind a C interface, for hosts: one payload, no ExecuTorch. Memory belongs to
 * the caller; nothing here allocates. See runtime/plan.h for alignment, lifetime and threads.
 */
#ifndef FUSED_QUANT_CAPI_H_
#define FUSED_QUANT_CAPI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FQ_EXPORT __attribute__((visibility("default")))

enum { FQ_MAX_RANK = 6 };

typedef struct {
  int32_t code;     /* fused_quant::Code; 0 = success */
  const char* what; /* static, never null */
  int32_t where;    /* operator or tensor index, as `what` says; -1 = neither */
  int64_t got;
  int64_t expected;
} fq_status;

typedef struct fq_plan fq_plan;

typedef struct {
  const char* name; /* never null */
  uint8_t dtype;    /* DType of the schema */
  uint8_t rank;
  uint32_t dim[FQ_MAX_RANK]; /* as stored, outermost first */
  const uint8_t* dim_order;  /* rank entries; null = identity */
  uint64_t nbytes;
} fq_tensor;

/* Every function that returns int32_t returns the status code, and writes `st` if it is not null.
 */

FQ_EXPORT int32_t fq_memory_needs(const void* payload, uint64_t size, uint64_t* persistent,
                                  uint64_t* arena, fq_status* st);
FQ_EXPORT int32_t fq_plan_create(const void* payload, uint64_t size, void* persistent,
                                 uint64_t persistent_size, void* arena, uint64_t arena_size,
                                 fq_plan** out, fq_status* st);

/* The same with the name of the best instruction set to use; null = the best there is. */
FQ_EXPORT int32_t fq_memory_needs_isa(const void* payload, uint64_t size, const char* isa,
                                      uint64_t* persistent, uint64_t* arena, fq_status* st);
FQ_EXPORT int32_t fq_plan_create_isa(const void* payload, uint64_t size, const char* isa,
                                     void* persistent, uint64_t persistent_size, void* arena,
                                     uint64_t arena_size, fq_plan** out, fq_status* st);

/* A constant that the payload shares with others: see runtime/constant_source.h. Entries and keys
 * are read only while the functions below run; the bytes must outlive the plan. */
typedef struct {
  const char* key;
  const void* data;
  uint64_t size;
} fq_constant;

typedef struct {
  const char* isa; /* null = the best there is */
  const fq_constant* constants;
  uint32_t num_constants;
} fq_options;

/* The same with everything that can be chosen; null options = none. */
FQ_EXPORT int32_t fq_memory_needs_with(const void* payload, uint64_t size,
                                       const fq_options* options, uint64_t* persistent,
                                       uint64_t* arena, fq_status* st);
FQ_EXPORT int32_t fq_plan_create_with(const void* payload, uint64_t size, const fq_options* options,
                                      void* persistent, uint64_t persistent_size, void* arena,
                                      uint64_t arena_size, fq_plan** out, fq_status* st);

/* Pointers are checked for null and for alignment to the element size, nothing else can fail. */
FQ_EXPORT int32_t fq_plan_execute(fq_plan* plan, const void* const* inputs, void* const* outputs);

FQ_EXPORT uint32_t fq_num_inputs(const fq_plan* plan);
FQ_EXPORT uint32_t fq_num_outputs(const fq_plan* plan);
FQ_EXPORT uint32_t fq_num_steps(const fq_plan* plan);

/* kInvalidArgument if the index is out of range. */
FQ_EXPORT int32_t fq_input(const fq_plan* plan, uint32_t index, fq_tensor* out);
FQ_EXPORT int32_t fq_output(const fq_plan* plan, uint32_t index, fq_tensor* out);

/* Null if the index is out of range. */
FQ_EXPORT const char* fq_step_name(const fq_plan* plan, uint32_t index);
FQ_EXPORT const char* fq_step_op(const fq_plan* plan, uint32_t index);
FQ_EXPORT const char* fq_step_kernel(const fq_plan* plan, uint32_t index);
FQ_EXPORT const char* fq_step_isa(const fq_plan* plan, uint32_t index);

/* The rows of kernels.inc, for tests. Null if the index is out of range. */
FQ_EXPORT uint32_t fq_num_kernels(void);
FQ_EXPORT const char* fq_kernel_name(uint32_t index);
FQ_EXPORT const char* fq_kernel_op(uint32_t index);
FQ_EXPORT const char* fq_kernel_isa(uint32_t index);

/* The numeric contract itself, elementwise over n values, for tests against big integers:
 * out[i] = min(max(zero_point + R(acc[i]; multiplier[i], shift[i]), lo), hi). */
FQ_EXPORT void fq_requantize(const int32_t* acc, const int32_t* multiplier, const uint8_t* shift,
                             int32_t zero_point, int32_t lo, int32_t hi, int32_t* out, uint64_t n);

#ifdef __cplusplus
}
#endif

#endif /* FUSED_QUANT_CAPI_H_ */
