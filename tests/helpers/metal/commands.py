"""Queues, command buffers, encoders, fences and indirect command buffers."""

from helpers.metal.message import FACTS, Descriptor, Fake, MTLSize, message, require
from helpers.metal.resources import Buffer, Pipeline
from helpers.metal.work import Pass, Work, run

NUMBERS = FACTS["constants"]
STATUS = {name: NUMBERS[f"MTLCommandBufferStatus{name}"] for name in ("NotEnqueued", "Committed", "Completed", "Error")}


class Fence(Fake):
    """The pass that updated it last."""

    def __init__(self):
        self.last = None


class Queue(Fake):
    def __init__(self, device):
        self.device = device
        self.committed = []

    @message
    def commandBuffer(self):
        return CommandBuffer(self)

    def drain(self):
        """Run everything committed so far."""
        passes = [p for command in self.committed for p in command.expanded()]
        for command in self.committed:
            command.state = STATUS["Completed"]
        self.committed = []
        self.device.order += run(passes, self.device.pick, self.device.stream)


class CommandBuffer(Fake):
    def __init__(self, queue):
        self.queue = queue
        self.state = STATUS["NotEnqueued"]
        self.encoders = []

    @message
    def computeCommandEncoderWithDispatchType_(self, kind):
        require(self.state == STATUS["NotEnqueued"], "a command buffer is used again after commit")
        require(all(e.is_ended for e in self.encoders), "the encoder before has not ended")
        self.encoders.append(Encoder(self, kind == NUMBERS["MTLDispatchTypeConcurrent"]))
        return self.encoders[-1]

    @message
    def commit(self):
        require(self.state == STATUS["NotEnqueued"], "a command buffer is committed twice")
        require(all(e.is_ended for e in self.encoders), "commit before endEncoding")
        self.state = STATUS["Committed"]
        self.queue.committed.append(self)
        for indirect in self.indirect():
            indirect.users.append(self)

    @message
    def waitUntilCompleted(self):
        require(self.state != STATUS["NotEnqueued"], "waiting for a command buffer that was not committed")
        if self.state == STATUS["Committed"]:
            self.queue.drain()
            self.state = self.queue.device.outcome

    @message
    def status(self):
        return self.state

    @message
    def error(self):
        return "the GPU gave up" if self.state == STATUS["Error"] else None

    def indirect(self):
        return [item[0] for e in self.encoders for item in e.items if isinstance(item, tuple)]

    def expanded(self):
        """Its passes, with indirect commands as they are now."""
        return [encoder.expand() for encoder in self.encoders]


class Encoder(Fake):
    def __init__(self, command, concurrent):
        self.command, self.concurrent = command, concurrent
        self.pass_ = Pass()
        self.items, self.used, self.bindings, self.known = [], {}, {}, []
        self.pipeline, self.is_ended = None, False

    def check(self):
        require(not self.is_ended, "encoding after endEncoding")

    @message
    def endEncoding(self):
        self.check()
        self.is_ended = True

    @message
    def waitForFence_(self, fence: Fence):
        self.check()
        require(not self.items, "wait for fences first")
        require(fence.last is not None, "waiting for a fence that nothing updates")
        self.pass_.behind.append(fence.last)

    @message
    def updateFence_(self, fence: Fence):
        self.check()
        fence.last = self.pass_

    @message
    def memoryBarrierWithScope_(self, scope):
        self.check()
        require(scope & NUMBERS["MTLBarrierScopeBuffers"], "a barrier that leaves buffers out")
        self.items.append("barrier")

    @message
    def setComputePipelineState_(self, pipeline: Pipeline):
        self.check()
        self.pipeline = pipeline
        self.known.append(pipeline)

    @message
    def setBuffer_offset_atIndex_(self, buffer: Buffer, offset, index):
        self.check()
        require(index < 31 and offset < buffer.nbytes, "binding out of bounds")
        self.bindings[index] = (buffer, offset)

    @message
    def dispatchThreadgroups_threadsPerThreadgroup_(self, grid, block):
        self.dispatch(grid, block, False)

    @message
    def dispatchThreads_threadsPerThreadgroup_(self, grid, block):
        self.dispatch(grid, block, True)

    def dispatch(self, grid, block, counts_threads):
        self.check()
        if 0 in grid:
            return
        self.items.append(Work(self.pipeline, grid, block, dict(self.bindings), counts_threads))
        if not self.concurrent:
            self.items.append("barrier")

    @message
    def useResource_usage_(self, buffer: Buffer, usage):
        self.check()
        self.used[id(buffer)] = self.used.get(id(buffer), 0) | usage

    @message
    def executeCommandsInBuffer_withRange_(self, commands: Fake, range_):
        self.check()
        require(range_[0] + range_[1] <= len(commands.commands), "range out of bounds")
        wanted = commands.commands[range_[0] : sum(range_)]
        if self.command.queue.device.forgetful:
            missing = [c for c in wanted if c.block and c.pipeline not in self.known]
            require(not missing, "the driver faults: an indirect command's pipeline was not set")
        # Residency is a matter of the encoder, so it is checked here, with what is bound now.
        for each in wanted:
            each.work(self.used)
        self.items.append((commands, wanted))

    def expand(self):
        for item in self.items:
            if item == "barrier":
                self.pass_.barrier()
            elif isinstance(item, Work):
                self.pass_.add(item)
            else:
                for command in item[1]:
                    if command.has_barrier:
                        self.pass_.barrier()
                    if command.block:
                        self.pass_.add(command.work(self.used))
        return self.pass_


class IndirectDescriptor(Descriptor):
    types, slots, inherits_buffers, inherits_pipeline = 0, 0, True, True

    @message
    def setCommandTypes_(self, types):
        self.types = types

    @message
    def setInheritBuffers_(self, inherits):
        self.inherits_buffers = inherits

    @message
    def setInheritPipelineState_(self, inherits):
        self.inherits_pipeline = inherits

    @message
    def setMaxKernelBufferBindCount_(self, slots):
        require(slots <= 31, "Metal has 31 buffers")
        self.slots = slots


class IndirectBuffer(Fake):
    def __init__(self, descriptor, count):
        require(not descriptor.inherits_pipeline, "pipelines are inherited, so none can be set")
        require(not descriptor.inherits_buffers, "buffers are inherited, so none can be set")
        self.types, self.slots, self.users = descriptor.types, descriptor.slots, []
        self.commands = [IndirectCommand(self) for _ in range(count)]

    @message
    def indirectComputeCommandAtIndex_(self, index):
        require(index < len(self.commands), "index out of bounds")
        return self.commands[index]


class IndirectCommand(Fake):
    def __init__(self, owner):
        self.owner = owner
        self.pipeline, self.grid, self.block = None, None, None
        self.bindings, self.has_barrier, self.counts_threads = {}, False, False

    def check(self):
        self.owner.users = [user for user in self.owner.users if user.state == STATUS["Committed"]]
        require(not self.owner.users, "an indirect command is changed while it is in flight")

    def work(self, used):
        if not self.block:
            return None
        return Work(self.pipeline, self.grid, self.block, dict(self.bindings), self.counts_threads, used)

    @message
    def setBarrier(self):
        self.check()
        require(not self.block, "setBarrier after the dispatch")
        self.has_barrier = True

    @message
    def setComputePipelineState_(self, pipeline: Pipeline):
        self.check()
        require(pipeline.is_indirect, "the pipeline does not support indirect command buffers")
        self.pipeline = pipeline

    @message
    def setKernelBuffer_offset_atIndex_(self, buffer: Buffer, offset, index):
        self.check()
        require(index < self.owner.slots and offset < min(buffer.nbytes, 1 << 32), "binding out of bounds")
        self.bindings[index] = (buffer, offset)

    @message
    def concurrentDispatchThreadgroups_threadsPerThreadgroup_(self, grid: MTLSize, block: MTLSize):
        self.dispatch(grid, block, "MTLIndirectCommandTypeConcurrentDispatch")

    @message
    def concurrentDispatchThreads_threadsPerThreadgroup_(self, grid: MTLSize, block: MTLSize):
        self.dispatch(grid, block, "MTLIndirectCommandTypeConcurrentDispatchThreads")

    def dispatch(self, grid, block, kind):
        self.check()
        require(self.owner.types & NUMBERS[kind], "a command of a type that the descriptor leaves out")
        self.grid, self.block, self.counts_threads = grid, block, kind.endswith("Threads")
