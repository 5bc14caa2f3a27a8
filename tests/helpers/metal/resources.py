"""Heaps, buffers, libraries and pipelines."""

import ctypes

import numpy as np

import hiprt
from helpers.metal.message import FACTS, Descriptor, Fake, message, require
from helpers.metal.program import program
from hiprt.metal_compat.options import MODES

NUMBERS = FACTS["constants"]


class Contents:
    """PyObjC's view of memory whose size it does not know."""

    def __init__(self, address):
        self.address = address

    def as_buffer(self, nbytes):
        return (ctypes.c_ubyte * nbytes).from_address(self.address)


class Buffer(Fake):
    """Memory of the CPU device, at the same address for host and GPU."""

    def __init__(self, nbytes, stream):
        self.array = hiprt.empty(nbytes, np.uint8, stream)
        self.nbytes, self.address = nbytes, self.array.address

    @message
    def gpuAddress(self):
        return self.address

    @message
    def contents(self):
        return Contents(self.address)

    @message
    def length(self):
        return self.nbytes


class HeapDescriptor(Descriptor):
    nbytes, storage, tracking = 0, None, None

    @message
    def setSize_(self, nbytes):
        self.nbytes = nbytes

    @message
    def setStorageMode_(self, mode):
        self.storage = mode

    @message
    def setHazardTrackingMode_(self, mode):
        self.tracking = mode


class Heap(Fake):
    def __init__(self, descriptor, stream):
        require(descriptor.storage == NUMBERS["MTLStorageModeShared"], "the host cannot see this heap")
        self.tracking, self.left, self.stream = descriptor.tracking, descriptor.nbytes, stream

    @message
    def newBufferWithLength_options_(self, nbytes, options):
        untracked = options & NUMBERS["MTLResourceHazardTrackingModeUntracked"] != 0
        require(untracked == (self.tracking == NUMBERS["MTLHazardTrackingModeUntracked"]), "not as the heap tracks")
        if nbytes > self.left:
            return None
        self.left -= nbytes
        return Buffer(nbytes, self.stream)


class CompileOptions(Descriptor):
    mode = "fast"

    @message
    def setFastMathEnabled_(self, is_fast):
        self.mode = "fast" if is_fast else "safe"

    @message
    def setMathMode_(self, mode):
        self.mode = {NUMBERS[f"MTLMathMode{name.title()}"]: name for name in MODES}[mode]


class Library(Fake):
    def __init__(self, text, mode):
        self.program = program(text, mode)

    @message
    def newFunctionWithName_(self, name: str):
        return Function(self.program) if name == self.program.name else None


class Function(Fake):
    def __init__(self, program):
        self.program = program


class PipelineDescriptor(Descriptor):
    function, is_indirect = None, False

    @message
    def setComputeFunction_(self, function: Function):
        self.function = function

    @message
    def setSupportIndirectCommandBuffers_(self, is_indirect):
        self.is_indirect = is_indirect


class Pipeline(Fake):
    def __init__(self, descriptor):
        require(descriptor.function is not None, "a pipeline without a function")
        self.program, self.is_indirect = descriptor.function.program, descriptor.is_indirect

    @message
    def maxTotalThreadsPerThreadgroup(self):
        return self.program.threads
