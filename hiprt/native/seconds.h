/* Seconds of a clock that never goes back, for how long something takes. Any thread may ask. */
#pragma once

double hiprt_seconds(void);
