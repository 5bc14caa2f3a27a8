/* What a step, and the library, refuse. */
#include <pthread.h>

#include "lane.h"

/* What a thread may not do with a step that another records. */
static void *meddle(void *step) {
  CHECK(hiprt_step_end(step, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_capture(step) == HIPRT_E_ARGUMENT);
  hiprt_step_cancel(step);
  return 0;
}

static void refusals(const lane *l) {
  pthread_t other;
  hiprt_rules rules;
  hiprt_outcome outcome;
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  CHECK(hiprt_open(0, HIPRT_ABI + 1) == HIPRT_E_ABI);
  CHECK(hiprt_open("no such provider", HIPRT_ABI) == HIPRT_E_LIBRARY);
  hiprt_rules_default(&rules);
  rules.fanout = 1;
  CHECK(!hiprt_step_create("rules", &rules) && hiprt_failure_status() == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_again(step, l->stream, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_end(step, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_captured(step, 0, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(!pthread_create(&other, 0, meddle, step));
  CHECK(!hiprt_step_begin(step, l->stream));
  CHECK(hiprt_step_begin(step, l->stream) == HIPRT_E_RECORDING);
  CHECK(!pthread_join(other, 0));
  CHECK(hiprt_stream_synchronize(l->stream) == HIPRT_E_RECORDING);
  CHECK(hiprt_copy(l->stream, (uintptr_t)l->x, (uintptr_t)&rules, 4, hipMemcpyHostToDevice) == HIPRT_E_RECORDING);
  issue(l, 5);
  hiprt_step_cancel(step);
  hiprt_step_cancel(step);
  CHECK(hiprt_step_again(step, l->stream, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_step_end(step, &outcome, 0) && !outcome.nodes);
  hiprt_step_release(step);
  hiprt_step_release(0);
}

/* What names no device, and launches that HIP refuses, of which the kernel is named. */
static void refused_launches(const lane *l) {
  hiprt_stream *none;
  hiprt_outcome outcome;
  const hiprt_dims wide = {.grid = {1, 1, 1}, .block = {4096, 1, 1}};
  void *const cells[] = {(void *)&l->x, (void *)&l->y};
  int ran = 1;
  CHECK(hiprt_stream_create((uintptr_t)l->handle, -1, &none) == HIPRT_E_ARGUMENT && !none);
  CHECK(hiprt_stream_create((uintptr_t)l->handle, 1 << 20, &none) == HIPRT_E_ARGUMENT && !none);
  CHECK(hiprt_launch_kernel(l->stream, add, &wide, cells, extents) > 0);
  CHECK(strstr(hiprt_failure_detail(), "add, grid 1x1x1 of 4096x1x1"));
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_launch_kernel(l->stream, add, &wide, cells, extents));
  CHECK(hiprt_step_end(step, &outcome, &ran) > 0 && !ran && strstr(hiprt_failure_detail(), "add, grid"));
  CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_launch_kernel(l->stream, add, &dims, cells, extents));
  CHECK(!hiprt_step_end(step, &outcome, 0) && outcome.rung == HIPRT_INSTANTIATE);
  hiprt_step_release(step);
}

/* Memory that would end past the last address, whose range would count as empty and make no edges, alone and in a step. */
static void memory_past_the_end(const lane *l) {
  const uint64_t y = (uintptr_t)l->y, z = (uintptr_t)l->z, last = UINT64_MAX, whole[] = {extents[0], last - z};
  const uint64_t past[][2] = {{extents[0], last}, {last, extents[1]}, {extents[0], last - z + 1}};
  void *const cells[] = {(void *)&l->y, (void *)&l->z};
  hiprt_outcome outcome;
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  for (int is_recorded = 0; is_recorded < 2; is_recorded++) {
    if (is_recorded) CHECK(!hiprt_step_begin(step, l->stream));
    for (int i = 0; i < 3; i++) {
      CHECK(hiprt_launch_kernel(l->stream, add, &dims, cells, past[i]) == HIPRT_E_ARGUMENT);
      CHECK(strstr(hiprt_failure_detail(), i == 1 ? "add, argument 0: " : "add, argument 1: "));
    }
    CHECK(hiprt_copy(l->stream, z, y, last, hipMemcpyDeviceToDevice) == HIPRT_E_ARGUMENT);
    CHECK(hiprt_copy(l->stream, last - 7, y, 8, hipMemcpyDeviceToDevice) == HIPRT_E_ARGUMENT);
    CHECK(hiprt_copy(l->stream, z, last - 7, 8, hipMemcpyDeviceToDevice) == HIPRT_E_ARGUMENT);
    CHECK(hiprt_fill(l->stream, z, 0, 4, 1ull << 62) == HIPRT_E_ARGUMENT);
    CHECK(hiprt_fill(l->stream, last - 7, 0, 2, 4) == HIPRT_E_ARGUMENT);
    CHECK(strstr(hiprt_failure_detail(), "past the last address"));
  }
  CHECK(!hiprt_launch_kernel(l->stream, add, &dims, cells, whole));
  CHECK(!hiprt_step_end(step, &outcome, 0) && outcome.nodes == 1);
  hiprt_step_release(step);
}

/* More arguments than HIP passes, also by sizes of which the sum has more than 32 bits. */
static void kernels_of_too_many_bytes(void) {
  const uint32_t most = UINT32_MAX, sizes[][2] = {{4092, 8}, {4097, 1}, {most, 1}, {most, most}, {4096, most}};
  hiprt_kernel *kernel;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const hiprt_argument two[] = {{sizes[i][0], 1, HIPRT_BY_VALUE}, {sizes[i][1], 1, HIPRT_BY_VALUE}};
    CHECK(hiprt_kernel_create(1, "large", 2, two, &kernel) == HIPRT_E_ARGUMENT && !kernel);
    CHECK(strstr(hiprt_failure_detail(), "large: the arguments take more than 4096 bytes"));
  }
  const hiprt_argument largest[] = {{4092, 4, HIPRT_BY_VALUE}, {4, 4, HIPRT_BY_VALUE}};
  CHECK(!hiprt_kernel_create(1, "largest", 2, largest, &kernel));
  hiprt_kernel_release(kernel);
}

/* Addresses where a kernel has no value of 8 bytes, or that lie over each other. */
static void addresses_that_are_none(void) {
  const hiprt_argument two[] = {{16, 8, HIPRT_BY_VALUE}, {8, 8, HIPRT_READ}, {4, 4, HIPRT_BY_VALUE}};
  const uint32_t wrong[][2] = {{0, 9}, {0, 16}, {0, UINT32_MAX}, {1, 0}, {2, 0}, {3, 0}, {UINT32_MAX, 0}};
  hiprt_kernel *kernel;
  CHECK(!hiprt_kernel_create(1, "held", 3, two, &kernel) && !hiprt_kernel_hold_address(kernel, 0, 4));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK(hiprt_kernel_hold_address(kernel, wrong[i][0], wrong[i][1]) == HIPRT_E_ARGUMENT);
    CHECK(strstr(hiprt_failure_detail(), "are not in a value") && strstr(hiprt_failure_detail(), "held, argument"));
  }
  for (uint32_t at = 0; at <= 8; at++) CHECK(!hiprt_kernel_hold_address(kernel, 0, at) == (at == 4));
  CHECK(strstr(hiprt_failure_detail(), "8 bytes at 8 are partly in another address"));
  hiprt_kernel_release(kernel);
}

int main(void) {
  lane l;
  CHECK(hiprt_version() == HIPRT_VERSION && !hiprt_step_create("early", 0));
  start(&l);
  CHECK(!hiprt_open(0, HIPRT_ABI));
  refusals(&l);
  refused_launches(&l);
  memory_past_the_end(&l);
  kernels_of_too_many_bytes();
  addresses_that_are_none();
  finish(&l);
  puts("ok");
  return 0;
}
