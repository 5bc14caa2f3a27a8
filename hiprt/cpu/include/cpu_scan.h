// Read before a program's own text when it is scanned for kernels (compile/scanner.cpp): these words stay as they are.
#undef __global__
#undef __shared__
#undef __launch_bounds__
