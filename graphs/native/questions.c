#include "questions.h"

#include "library.h"

int hiprt_questions_begin(void) { return hiprt_hip.hipPeekAtLastError ? (int)hiprt_hip.hipPeekAtLastError() : 0; }

void hiprt_questions_end(int before) {
  if (!before && hiprt_hip.hipGetLastError) hiprt_hip.hipGetLastError();
}
