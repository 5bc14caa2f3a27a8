"""Facts about Metal's interface from PyObjC's published metadata: run with the path of its Metal/_metadata.py.

The wheel for macOS holds that file: pip download --no-deps --only-binary :all: --platform macosx_11_0_universal2
pyobjc-framework-Metal. Only facts are taken over: names, argument types and numbers.
"""

import json
import re
import sys
import types
from pathlib import Path

FACTS = Path(__file__).parent / "facts.json"
SELECTORS = """
name recommendedMaxWorkingSetSize maxBufferLength newCommandQueue newFence newHeapWithDescriptor:
heapBufferSizeAndAlignWithLength:options: newBufferWithLength:options: newLibraryWithSource:options:error:
newComputePipelineStateWithDescriptor:options:reflection:error:
newIndirectCommandBufferWithDescriptor:maxCommandCount:options: gpuAddress contents length newFunctionWithName:
setFastMathEnabled: setSupportIndirectCommandBuffers: maxTotalThreadsPerThreadgroup commandBuffer
computeCommandEncoderWithDispatchType: commit waitUntilCompleted status error endEncoding waitForFence: updateFence:
memoryBarrierWithScope: setComputePipelineState: setBuffer:offset:atIndex:
dispatchThreadgroups:threadsPerThreadgroup: useResource:usage: executeCommandsInBuffer:withRange: setInheritBuffers:
setInheritPipelineState: indirectComputeCommandAtIndex: setBarrier setKernelBuffer:offset:atIndex:
concurrentDispatchThreadgroups:threadsPerThreadgroup: dispatchThreads:threadsPerThreadgroup:
concurrentDispatchThreads:threadsPerThreadgroup:
""".split()
CONSTANTS = """
MTLStorageModeShared MTLResourceStorageModeShared MTLResourceHazardTrackingModeUntracked MTLHazardTrackingModeTracked
MTLHazardTrackingModeUntracked MTLDispatchTypeSerial MTLDispatchTypeConcurrent MTLBarrierScopeBuffers
MTLIndirectCommandTypeConcurrentDispatch MTLIndirectCommandTypeConcurrentDispatchThreads MTLMathModeSafe
MTLMathModeRelaxed MTLMathModeFast MTLResourceUsageRead MTLResourceUsageWrite MTLPipelineOptionNone
MTLCommandBufferStatusNotEnqueued MTLCommandBufferStatusCommitted MTLCommandBufferStatusCompleted
MTLCommandBufferStatusError
""".split()
# PyObjC asks the Objective-C runtime for what its metadata leaves out. Some it gives as text: in versions
# 10.3 to 12.2.2 the integers "q" where concurrentDispatchThread(group)s takes two MTLSize.
# By its sources the runtime's type is kept where the published one does not fit; this has not been seen on a Mac.
# From Apple's MTLHeap.h, MTLLibrary.h, MTLComputePipeline.h, MTLIndirectCommandBuffer.h, MTLIndirectCommandEncoder.h.
HEADERS = {
    "setSize:": ["v", ["Q"]],
    "setStorageMode:": ["v", ["Q"]],
    "setHazardTrackingMode:": ["v", ["Q"]],
    "setComputeFunction:": ["v", ["@"]],
    "setCommandTypes:": ["v", ["Q"]],
    "setMaxKernelBufferBindCount:": ["v", ["Q"]],
    "setKernelBuffer:offset:atIndex:": ["v", ["@", "Q", "Q"]],
    "setMathMode:": ["v", ["q"]],
    "concurrentDispatchThreads:threadsPerThreadgroup:": ["v", ["{MTLSize=QQQ}", "{MTLSize=QQQ}"]],
    "concurrentDispatchThreadgroups:threadsPerThreadgroup:": ["v", ["{MTLSize=QQQ}", "{MTLSize=QQQ}"]],
}


def load(path):
    """Run a metadata file with a stand-in for the module objc."""
    found = {}

    class Objc(types.ModuleType):
        arch = "arm64"

        def __getattr__(self, name):
            return lambda *args, **names: None

    objc = Objc("objc")
    objc.registerMetaDataForSelector = lambda cls, selector, data: found.setdefault(selector.decode(), data)
    sys.modules["objc"] = objc
    names = {}
    try:
        exec(compile(path.read_text(), str(path), "exec"), names)
    finally:
        del sys.modules["objc"]
    return found, names


def signature(data):
    """Return the result's type and the arguments', an out argument's with a leading o; None where one is not bytes."""
    arguments = data.get("arguments", {})
    types_ = [data.get("retval", {}).get("type", b"v")]
    types_ += [arguments[i]["type"] for i in range(2, 2 + len(arguments))]
    if not all(isinstance(each, bytes) for each in types_):
        return None
    out = [arguments[i].get("type_modifier") == b"o" for i in range(2, 2 + len(arguments))]
    return [types_[0].decode(), ["o" * is_out + each.decode() for is_out, each in zip(out, types_[1:])]]


def derive(path):
    """Return the facts."""
    found, names = load(path)
    published = {name: signature(found[name]) for name in SELECTORS}
    constants = {name: int(re.search(rf"\${name}@(-?\d+)\$", names["enums"] + "$")[1]) for name in CONSTANTS}
    return {
        "source": "pyobjc-framework-Metal 12.2.2 (PyPI), Metal/_metadata.py; 'headers': Apple's declarations",
        "metadata": {name: value for name, value in published.items() if value},
        "headers": HEADERS,
        "constants": constants,
        "functions": {
            name: names["functions"][name][0].decode() for name in ("MTLCreateSystemDefaultDevice", "MTLSizeMake")
        },
    }


if __name__ == "__main__":
    FACTS.write_text(json.dumps(derive(Path(sys.argv[1])), indent=1) + "\n")
