#include "last_error.h"

#include "library.h"

int hiprt_last_error(void) { return hiprt_hip.hipPeekAtLastError ? (int)hiprt_hip.hipPeekAtLastError() : 0; }

void hiprt_last_error_restore(int before) {
  if (!before && hiprt_hip.hipGetLastError) hiprt_hip.hipGetLastError();
}
