/* A step as JSON: prints that, and nothing else. */
#include "lane.h"

/* The dump is JSON with every node and edge; a text that is too long is cut. */
static void dumps(const lane *l) {
  hiprt_step *step = hiprt_step_create("a \"name\"", 0);
  uint64_t size, again;
  step_by(step, l, 255);
  CHECK(!hiprt_step_dump(step, 0, 0, &size));
  char *text = malloc(size);
  CHECK(!hiprt_step_dump(step, text, size, &again) && again == size && strlen(text) + 1 == size);
  fputs(text, stdout);
  hiprt_step_release(step);
  free(text);
}

int main(void) {
  lane l;
  start(&l);
  dumps(&l);
  finish(&l);
  return 0;
}
