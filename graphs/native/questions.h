/* Questions: what a library asks HIP while other code runs, without a trace in the failure that HIP keeps for each thread.
 *
 * Other code asks for that failure after its launches, and must not find one of ours. */
#pragma once

/* Begin to ask, and return what hiprt_questions_end needs, which the same thread calls. */
int hiprt_questions_begin(void);
void hiprt_questions_end(int before);
