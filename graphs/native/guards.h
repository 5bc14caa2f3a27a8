/* Guards that tests take away one at a time, to show that each is needed. Nothing else calls this. */
#pragma once
#include <stdint.h>

#define HIPRT_GUARD_KEY 1u /* topology keys are compared by content (G3); without it, by the number of nodes */
#define HIPRT_GUARD_FENCE 2u /* a launch without an event behind it gets one when somebody asks (G2) */

extern uint32_t hiprt_guards_off;

/* "key"; "fence"; "device": hipSetDevice before graph calls (G11); "busy": asking whether an exec is in flight (G2);
 * "wait": waiting until it is not, before it is changed or destroyed. 0, or -1 for another name. Needs an open library. */
int hiprt_test_disable(const char *guard);
