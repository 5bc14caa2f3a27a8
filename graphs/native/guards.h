/* Guards: what tests take away one at a time, to show that each is needed. Nothing else does.
 *
 * They are taken away before there are other threads. */
#pragma once
#include <stdint.h>

#define HIPRT_GUARD_KEY 1u /* topology keys are compared by content (G3); without it, by the number of nodes */
#define HIPRT_GUARD_FENCE 2u /* a launch without an event behind it gets one when somebody asks (G2) */
#define HIPRT_GUARD_STREAM 4u /* an exec is on one stream at a time (G6) */

extern uint32_t hiprt_guards_off;

/* Take one away: "key", "fence" or "stream", as above; "device": hipSetDevice before graph calls (G11); "busy": asking whether
 * an exec is in flight (G2); "wait": waiting until it is not, before it is changed or destroyed; "order": what a stream waits
 * for of others (G13). Return 0, or -1 for another name. A library must be open. */
int hiprt_test_disable(const char *guard);
