// Part of what is included before every program (cpu_vector.h).
#pragma once
