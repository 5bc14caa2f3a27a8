"""The module Metal, as PyObjC offers it on macOS, over the CPU device.

Names, argument counts, argument types and numbers are PyObjC's published ones (facts.json). Work runs only when
somebody waits for it, in an order that barriers and fences leave open: with a seed at random, else the last one first.
"""

import random

from helpers.metal.commands import STATUS, Fence, IndirectBuffer, IndirectDescriptor, Queue
from helpers.metal.message import FACTS, Fake, MTLSize, MTLSizeAndAlign, message, require
from helpers.metal.resources import (
    CompileOptions,
    Heap,
    HeapDescriptor,
    Library,
    Pipeline,
    PipelineDescriptor,
)

MEMORY = 1 << 26


class Device(Fake):
    """A Metal device.

    Attributes
    ----------
    order : list of Work
        What ran.
    outcome : int
        Status of command buffers that have run.
    """

    def __init__(self, stream, seed, title):
        self.stream, self.title = stream, title
        self.forgetful = title.startswith(("Apple M1", "Apple M2"))
        self.pick = (lambda ready: ready[-1]) if seed is None else random.Random(seed).choice
        self.order = []
        self.outcome = STATUS["Completed"]

    @message
    def name(self):
        return self.title

    @message
    def recommendedMaxWorkingSetSize(self):
        return MEMORY

    @message
    def maxBufferLength(self):
        return MEMORY

    @message
    def heapBufferSizeAndAlignWithLength_options_(self, nbytes, options):
        return MTLSizeAndAlign(-(-nbytes // 16384) * 16384, 16384)

    @message
    def newHeapWithDescriptor_(self, descriptor: HeapDescriptor):
        return Heap(descriptor, self.stream) if descriptor.nbytes <= MEMORY else None

    @message
    def newCommandQueue(self):
        return Queue(self)

    @message
    def newFence(self):
        return Fence()

    @message
    def newLibraryWithSource_options_error_(self, text: str, options: CompileOptions, error):
        fuses = "#pragma METAL fp contract(off)" not in text
        require(fuses == (options.mode != "safe"), "Apple's compiler fuses products with sums, or must not")
        try:
            return Library(text, options.mode), None
        except SyntaxError as problem:
            return None, str(problem)

    @message
    def newComputePipelineStateWithDescriptor_options_reflection_error_(
        self, descriptor: PipelineDescriptor, options, reflection, error
    ):
        return Pipeline(descriptor), None

    @message
    def newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(
        self, descriptor: IndirectDescriptor, count, options
    ):
        return IndirectBuffer(descriptor, count)


class Metal:
    """The module."""

    MTLHeapDescriptor = HeapDescriptor
    MTLCompileOptions = CompileOptions
    MTLComputePipelineDescriptor = PipelineDescriptor
    MTLIndirectCommandBufferDescriptor = IndirectDescriptor

    def __init__(self, stream, seed=None, title="Apple M4"):
        self.device = Device(stream, seed, title)

    def __getattr__(self, name):
        if name not in FACTS["constants"]:
            raise AttributeError(f"Metal has no {name}")
        return FACTS["constants"][name]

    def MTLCreateSystemDefaultDevice(self):
        return self.device

    def MTLSizeMake(self, width, height, depth):
        return MTLSize(width, height, depth)
