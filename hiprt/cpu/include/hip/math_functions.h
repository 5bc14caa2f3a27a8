// Part of what is included before every program (cpu_math.h).
#pragma once
