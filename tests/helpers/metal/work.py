"""Committed work, run in an order that barriers and fences leave open."""

from helpers.metal.message import require


class Work:
    """One dispatch with what was bound at that moment."""

    def __init__(self, pipeline, grid, block, bindings, counts_threads, used=None):
        require(pipeline is not None, "dispatch without a pipeline")
        program = pipeline.program
        require(program.counts_threads == counts_threads, f"{program.name}: threads and threadgroups are confused")
        require(block.width * block.height * block.depth <= program.threads, "threadgroup too large")
        for index, is_written in program.written.items():
            require(index in bindings, f"{program.name}: nothing is bound at index {index}")
            require(bindings[index][1] % program.alignments[index] == 0, f"{program.name}: {index} is not aligned")
            if used is not None:
                usage = used.get(id(bindings[index][0]), 0)
                require(usage & 1 and (usage & 2 or not is_written), f"{program.name}: buffer {index} is not resident")
        self.program, self.grid, self.block = program, grid, block
        self.bindings = bindings

    def run(self, stream):
        if 0 in self.grid or 0 in self.block:
            return
        addresses = [self.bindings[i][0].address + self.bindings[i][1] for i in sorted(self.program.written)]
        self.program.run(stream, self.grid, self.block, addresses)


class Pass:
    """What one encoder encoded: stages that barriers divide, and the passes whose fences it waits for."""

    def __init__(self):
        self.stages = [[]]
        self.behind = []
        self.left = None

    def barrier(self):
        self.stages.append([])

    def add(self, work):
        self.stages[-1].append(work)

    def start(self):
        self.left = [list(stage) for stage in self.stages if stage]

    @property
    def is_done(self):
        return self.left is not None and not self.left


def run(passes, pick, stream):
    """Run passes: of all that may run next, `pick` chooses, from a list in program order."""
    for each in passes:
        each.start()
    order = []
    while True:
        ready = [(p, w) for p in passes if p.left and all(b.is_done for b in p.behind) for w in p.left[0]]
        if not ready:
            break
        chosen, work = pick(ready)
        chosen.left[0].remove(work)
        if not chosen.left[0]:
            chosen.left.pop(0)
        order.append(work)
        work.run(stream)
    require(all(p.is_done for p in passes), "passes wait for each other")
    return order
