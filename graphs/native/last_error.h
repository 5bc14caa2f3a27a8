/* The last error: the failure that HIP keeps for each thread, which other code asks for after its launches. A library that asks
 * HIP something while other code runs leaves none of its own there. */
#pragma once

/* Return the calling thread's last error, which stays; 0 where there is none. */
int hiprt_last_error(void);
/* Forget what calls since have left, where `before` says that there was no error; the first one stays. The same thread. */
void hiprt_last_error_restore(int before);
