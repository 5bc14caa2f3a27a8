"""The CPU device: a HIP library of our own that executes kernels on the host's cores, in C++.

Its rooms, from the bottom to the top. A file includes files of its own room and of those before it.

- ``include/``: the headers that are compiled into kernels, and what a module and the engine know of each other.
- ``quirks/``: the defects of ROCm's runtime that it imitates, and the profiles that name them by version.
- ``check/``: poison for undefined results, and reads of memory that may not be there.
- ``engine/``: loads code objects and executes kernels: fibers, warps, worker threads, faults.
- ``compile/``: builds a program with the C++ compilers that the machine has, and caches it.
- ``runtime/``: devices, memory, streams, events, modules, and the works that streams queue.
- ``graph/``: graph definitions, executable graphs, their updates and launches, stream capture.
- ``api/``: the functions of HIP and hiprtc, one file for each noun.
"""
