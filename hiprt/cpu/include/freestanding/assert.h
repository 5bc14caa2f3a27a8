// Part of the prelude that every program gets (cpu_prelude.h).
#pragma once
