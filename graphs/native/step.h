/* Steps without Python: what hiprt.h says of them. */
#pragma once
#include "ladder.h"
