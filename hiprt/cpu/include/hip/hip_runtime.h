// The device language is included before every program already (cpu_prelude.h): this is for programs that ask for it.
#pragma once
