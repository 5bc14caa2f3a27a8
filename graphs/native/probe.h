/* Probes: what a library does, found out with calls that the rest of the core never makes. */
#pragma once

/* cffi begin */
/* Find out whether hipGraphExecUpdate refuses a graph with other edges between the same nodes. */
int hiprt_probe_wiring(int device, int *out_refused);
/* cffi end */
