/* Pools for engines without Python: memory of HIP's that books give out again (books.h). */
#pragma once
#include "hiprt/hiprt.h"

void hiprt_pool_retain(hiprt_pool *pool);
