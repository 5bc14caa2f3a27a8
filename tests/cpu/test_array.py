"""Arrays: what can be made, what is told of them, and copies between them and other memory."""

import ctypes
import itertools

import numpy as np
import pytest
from helpers.hip_calls import KIND, E, ok, raw
from rocm.bindings import hip

SIZE = ctypes.c_size_t
UNSIGNED, SIGNED, FLOAT, NONE = 1, 0, 2, 3
UINT8, UINT16, HALF, FLOAT32 = 1, 2, 16, 32
LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8


class Channels(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int) for name in "xyzw"), ("kind", ctypes.c_int)]


class Extent(ctypes.Structure):
    _fields_ = [(name, SIZE) for name in ("width", "height", "depth")]


class Shape(ctypes.Structure):
    _fields_ = [
        *((name, SIZE) for name in ("width", "height", "depth")),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("flags", ctypes.c_uint),
    ]


class Flat(ctypes.Structure):
    _fields_ = [("width", SIZE), ("height", SIZE), ("format", ctypes.c_int), ("channels", ctypes.c_uint)]


class Pitched(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), *((name, SIZE) for name in ("pitch", "width", "height"))]


class Box(ctypes.Structure):
    """The parameters of hipMemcpy3D."""

    _fields_ = [
        *(("src_array", ctypes.c_void_p), ("src_at", Extent), ("src", Pitched)),
        *(("dst_array", ctypes.c_void_p), ("dst_at", Extent), ("dst", Pitched)),
        *(("extent", Extent), ("kind", ctypes.c_int)),
    ]


class Driver(ctypes.Structure):
    """The parameters of hipDrvMemcpy3D."""

    _fields_ = [
        (f"{side}_{name}", kind)
        for side in ("src", "dst")
        for name, kind in (
            *((name, SIZE) for name in ("x", "y", "z", "lod")),
            ("type", ctypes.c_int),
            *((name, ctypes.c_void_p) for name in ("host", "device", "array")),
            *((name, SIZE) for name in ("pitch", "height")),
        )
    ] + [(name, SIZE) for name in ("width", "height", "depth")]


def flat(width, height=0, channels=1):
    """Make an array of 32-bit floats."""
    array = ctypes.c_void_p()
    assert raw("hipArrayCreate", ctypes.byref(array), ctypes.byref(Flat(width, height, FLOAT32, channels))) == 0
    return array


def solid(*extent, flags=0):
    """Make an array of bytes in three dimensions."""
    array = ctypes.c_void_p()
    channels = Channels(8, 0, 0, 0, UNSIGNED)
    assert raw("hipMalloc3DArray", ctypes.byref(array), ctypes.byref(channels), Extent(*extent), flags) == 0
    return array


def free(*arrays):
    for array in arrays:
        assert raw("hipFreeArray", array) == 0


def address(host):
    return ctypes.c_void_p(host.ctypes.data)


def to_array(array, x, y, host, rows=None, width=None):
    rows = host.shape[0] if rows is None else rows
    width = host.strides[0] if width is None else width
    return raw(
        "hipMemcpy2DToArray",
        *(array, SIZE(x), SIZE(y), address(host), SIZE(host.strides[0]), SIZE(width), SIZE(rows)),
        KIND.hipMemcpyHostToDevice,
    )


def from_array(host, array, x, y):
    return raw(
        "hipMemcpy2DFromArray",
        *(address(host), SIZE(host.strides[0]), array, SIZE(x), SIZE(y), SIZE(host.strides[0]), SIZE(host.shape[0])),
        KIND.hipMemcpyDeviceToHost,
    )


def test_shapes_that_can_be_made():
    """Elements have 1, 2 or 4 channels of one size; cube maps do not exist; gathers have two dimensions."""

    def made(width, height, depth, form=UINT8, channels=1, flags=0):
        array = ctypes.c_void_p()
        shape = Shape(width, height, depth, form, channels, flags)
        status = raw("hipArray3DCreate", ctypes.byref(array), ctypes.byref(shape))
        if status == 0:
            told = Shape()
            assert raw("hipArray3DGetDescriptor", ctypes.byref(told), array) == 0
            assert bytes(told) == bytes(shape)
            free(array)
        return status

    good = [(5, 0, 0), (5, 3, 0), (5, 3, 2), (16384, 0, 0)]
    assert [made(*extent) for extent in good] == [0] * 4
    bad = [(0, 0, 0), (0, 3, 0), (5, 0, 2), (16385, 0, 0)]
    assert [made(*extent) for extent in bad] == [E.hipErrorInvalidValue] * 4
    assert made(5, 0, 2, flags=LAYERED) == made(5, 3, 2, flags=LAYERED | SURFACE) == 0
    assert made(5, 3, 0, flags=LAYERED) == E.hipErrorInvalidValue
    assert made(5, 3, 0, flags=GATHER) == 0
    assert made(5, 0, 0, flags=GATHER) == made(5, 3, 2, flags=GATHER) == E.hipErrorInvalidValue
    assert made(5, 5, 6, flags=CUBEMAP) == made(5, 0, 0, flags=16) == E.hipErrorInvalidValue
    assert [made(5, 0, 0, channels=n) for n in (1, 2, 4)] == [0] * 3
    assert [made(5, 0, 0, channels=n) for n in (0, 3, 5)] == [E.hipErrorInvalidValue] * 3
    assert made(5, 0, 0, form=7) == E.hipErrorInvalidValue
    assert raw("hipArray3DCreate", None, ctypes.byref(Shape(5, 0, 0, UINT8, 1, 0))) == E.hipErrorInvalidValue
    assert raw("hipArray3DCreate", ctypes.byref(ctypes.c_void_p()), None) == E.hipErrorInvalidValue


def test_the_largest_extents_are_told_as_those_of_textures():
    """Arrays reach the limits that the device tells of textures, and no further, though it has no textures."""
    A = hip.hipDeviceAttribute_t

    def limit(name):
        return ok(hip.hipDeviceGetAttribute(getattr(A, f"hipDeviceAttribute{name}"), 0))

    def status(*extent):
        array = ctypes.c_void_p()
        made = raw("hipArray3DCreate", ctypes.byref(array), ctypes.byref(Shape(*extent, UINT8, 1, 0)))
        if made == 0:
            free(array)
        return made

    line, *plane = (limit(f"MaxTexture{name}") for name in ("1DWidth", "2DWidth", "2DHeight"))
    space = [limit(f"MaxTexture3D{name}") for name in ("Width", "Height", "Depth")]
    properties = ok(hip.hipGetDeviceProperties(0))
    assert (properties.maxTexture1D, properties.maxTexture2D, properties.maxTexture3D) == (line, plane, space)
    largest = [(line, 0, 0), (plane[0], 2, 0), (2, plane[1], 0), (space[0], 2, 2), (2, space[1], 2), (2, 2, space[2])]
    for extent in largest:
        assert status(*extent) == 0
        assert status(*(n + 1 if n > 2 else n for n in extent)) == E.hipErrorInvalidValue
    assert limit("ImageSupport") == 0


def test_channels_name_a_format():
    def made(*channels):
        array, told, extent, flags = ctypes.c_void_p(), Channels(), Extent(), ctypes.c_uint(9)
        status = raw(
            "hipMallocArray", ctypes.byref(array), ctypes.byref(Channels(*channels)), SIZE(6), SIZE(2), SURFACE
        )
        if status == 0:
            assert raw("hipArrayGetInfo", ctypes.byref(told), ctypes.byref(extent), ctypes.byref(flags), array) == 0
            assert bytes(told) == bytes(Channels(*channels))
            assert (extent.width, extent.height, extent.depth, flags.value) == (6, 2, 0, SURFACE)
            free(array)
        return status

    for bits, kind in itertools.product((8, 16, 32), (UNSIGNED, SIGNED, FLOAT)):
        good = E.hipErrorInvalidValue if (bits, kind) == (8, FLOAT) else E.hipSuccess
        assert made(bits, 0, 0, 0, kind) == made(bits, bits, 0, 0, kind) == made(*[bits] * 4, kind) == good
    for channels in ((0, 0, 0, 0), (32, 32, 32, 0), (32, 16, 0, 0), (32, 0, 32, 0), (32, 0, 0, 32), (64, 0, 0, 0)):
        assert made(*channels, SIGNED) == E.hipErrorInvalidValue
    assert made(32, 0, 0, 0, NONE) == E.hipErrorInvalidValue


def test_handles_end():
    """A freed or unknown array is refused with CLR's codes, and its memory counts no longer."""

    def taken():
        left, whole = SIZE(), SIZE()
        assert raw("hipMemGetInfo", ctypes.byref(left), ctypes.byref(whole)) == 0
        return whole.value - left.value

    before, array = taken(), flat(1024, 16)
    assert taken() == before + 4 * 1024 * 16
    free(array)
    assert taken() == before
    assert raw("hipFreeArray", array) == raw("hipArrayDestroy", array) == E.hipErrorContextIsDestroyed
    assert raw("hipFreeArray", None) == E.hipErrorInvalidValue
    shape, host = Flat(), np.zeros((1, 4), np.uint8)
    assert raw("hipArrayGetDescriptor", ctypes.byref(shape), array) == E.hipErrorInvalidHandle
    assert raw("hipArrayGetDescriptor", ctypes.byref(shape), None) == E.hipErrorInvalidHandle
    assert to_array(array, 0, 0, host) == from_array(host, None, 0, 0) == E.hipErrorInvalidHandle
    array = flat(4)
    assert raw("hipArrayGetDescriptor", None, array) == E.hipErrorInvalidValue
    assert raw("hipArrayGetDescriptor", ctypes.byref(shape), array) == 0
    assert (shape.width, shape.height, shape.format, shape.channels) == (4, 0, FLOAT32, 1)
    free(array)


def test_rows_and_columns():
    """Offsets and widths count bytes, and nothing beyond the array or the rows of the other side is touched."""
    content = np.random.default_rng(3).integers(0, 256, (7, 48), np.uint8)
    array, other = flat(12, 7), flat(12, 7)
    assert to_array(array, 0, 0, content) == 0
    part = np.empty((3, 16), np.uint8)
    assert from_array(part, array, 8, 2) == 0
    assert (part == content[2:5, 8:24]).all()
    assert to_array(array, 33, 0, part) == to_array(array, 0, 5, part) == E.hipErrorInvalidValue
    assert from_array(part, array, 33, 0) == from_array(part, array, 0, 5) == E.hipErrorInvalidValue
    assert to_array(array, 0, 0, part, width=17) == E.hipErrorInvalidPitchValue
    between = (SIZE(4), SIZE(1), SIZE(20), SIZE(3), KIND.hipMemcpyDeviceToDevice)
    assert to_array(other, 0, 0, np.zeros_like(content)) == 0
    assert raw("hipMemcpy2DArrayToArray", other, SIZE(8), SIZE(2), array, *between) == 0
    whole = np.empty_like(content)
    assert from_array(whole, other, 0, 0) == 0
    assert (whole[2:5, 8:28] == content[1:4, 4:24]).all()
    whole[2:5, 8:28] = 0
    assert not whole.any()
    assert raw("hipMemcpy2DArrayToArray", other, SIZE(32), SIZE(2), array, *between) == E.hipErrorInvalidValue
    assert raw("hipMemcpy2DArrayToArray", other, SIZE(8), SIZE(2), array, *between[:4], 9) == 21
    free(array, other)


def test_bytes_of_the_first_row():
    content, out = np.arange(64, dtype=np.uint8), np.zeros(16, np.uint8)
    array, other, device = flat(16), flat(16), ctypes.c_void_p()
    assert raw("hipMalloc", ctypes.byref(device), SIZE(64)) == 0
    assert raw("hipMemcpyHtoA", array, SIZE(0), address(content), SIZE(64)) == 0
    assert raw("hipMemcpyAtoA", other, SIZE(8), array, SIZE(4), SIZE(40)) == 0
    assert raw("hipMemcpyAtoD", device, other, SIZE(8), SIZE(40)) == 0
    assert raw("hipMemcpyDtoA", array, SIZE(48), device, SIZE(16)) == 0
    assert raw("hipMemcpyAtoH", address(out), array, SIZE(48), SIZE(16)) == 0
    assert out.tolist() == list(range(4, 20))
    bad = E.hipErrorInvalidValue
    assert raw("hipMemcpyHtoA", array, SIZE(1), address(content), SIZE(64)) == bad
    assert (
        raw("hipMemcpyAtoH", None, array, SIZE(0), SIZE(4))
        == raw("hipMemcpyAtoH", address(out), None, SIZE(0), SIZE(4))
        == bad
    )
    assert raw("hipMemcpyAtoD", address(out), array, SIZE(0), SIZE(4)) == bad  # that is not the device's memory
    assert raw("hipFree", device) == 0
    free(array, other)


def test_a_stream_and_its_capture():
    """Asynchronous forms run in order; captured, they become nodes that copy when the graph is launched."""
    content, out = np.arange(32, dtype=np.uint8).reshape(2, 16), np.zeros((2, 16), np.uint8)
    array, stream, graph, run = flat(4, 2), *(ctypes.c_void_p() for _ in range(3))
    assert raw("hipStreamCreate", ctypes.byref(stream)) == 0
    assert raw("hipStreamBeginCapture", stream, 0) == 0
    to = (array, SIZE(0), SIZE(0), address(content), SIZE(16), SIZE(16), SIZE(2), KIND.hipMemcpyHostToDevice, stream)
    back = (address(out), SIZE(16), array, SIZE(0), SIZE(0), SIZE(16), SIZE(2), KIND.hipMemcpyDeviceToHost, stream)
    assert raw("hipMemcpy2DToArrayAsync", *to) == raw("hipMemcpy2DFromArrayAsync", *back) == 0
    assert raw("hipStreamEndCapture", stream, ctypes.byref(graph)) == 0
    assert not out.any()
    assert raw("hipGraphInstantiate", ctypes.byref(run), graph, None, None, SIZE(0)) == 0
    assert raw("hipGraphLaunch", run, stream) == raw("hipStreamSynchronize", stream) == 0
    assert (out == content).all()
    content += 1
    assert raw("hipMemcpyHtoAAsync", array, SIZE(0), address(content), SIZE(16), stream) == 0
    assert raw("hipMemcpyAtoHAsync", address(out), array, SIZE(0), SIZE(16), stream) == 0
    assert raw("hipStreamSynchronize", stream) == 0
    assert (out - content).tolist() == [[0] * 16, [255] * 16]
    assert raw("hipGraphExecDestroy", run) == raw("hipGraphDestroy", graph) == raw("hipStreamDestroy", stream) == 0
    free(array)


def test_a_handle_tells_its_type():
    array, kind = flat(4), ctypes.c_int(-1)
    which = hip.hipPointer_attribute
    ask = lambda what: raw("hipPointerGetAttribute", ctypes.byref(kind), what, array)  # noqa: E731
    assert ask(which.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE) == 0
    assert kind.value == hip.hipMemoryType.hipMemoryTypeArray
    assert ask(which.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER) == E.hipErrorInvalidValue
    free(array)
    assert ask(which.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE) == E.hipErrorInvalidValue


@pytest.mark.parametrize("flags", [0, LAYERED])
def test_three_dimensions(flags):
    """Beside an array, widths and places in it count elements; planes and layers are the same."""
    content = np.random.default_rng(5).integers(0, 256, (4, 5, 6), np.uint8)
    array, other = solid(6, 5, 4, flags=flags), solid(6, 5, 4, flags=flags)
    box = Box(extent=Extent(6, 5, 4), kind=KIND.hipMemcpyHostToDevice, dst_array=array)
    box.src = Pitched(content.ctypes.data, 6, 6, 5)
    assert raw("hipMemcpy3D", ctypes.byref(box)) == 0
    box = Box(src_array=array, dst_array=other, extent=Extent(3, 2, 2), kind=KIND.hipMemcpyDeviceToDevice)
    box.src_at, box.dst_at = Extent(1, 2, 1), Extent(3, 0, 2)
    assert raw("hipMemcpy3D", ctypes.byref(box)) == 0
    part = np.zeros((2, 2, 3), np.uint8)
    box = Box(src_array=other, src_at=Extent(3, 0, 2), extent=Extent(3, 2, 2), kind=KIND.hipMemcpyDeviceToHost)
    box.dst = Pitched(part.ctypes.data, 3, 3, 2)
    assert raw("hipMemcpy3D", ctypes.byref(box)) == 0
    assert (part == content[1:3, 2:4, 1:4]).all()
    box.src_at = Extent(4, 0, 2)
    assert raw("hipMemcpy3D", ctypes.byref(box)) == E.hipErrorInvalidValue
    box.src_at, box.src = Extent(3, 0, 2), Pitched(part.ctypes.data, 3, 3, 2)  # a side is named twice
    assert raw("hipMemcpy3D", ctypes.byref(box)) == E.hipErrorInvalidValue
    box = Box(extent=Extent(3, 2, 2), kind=KIND.hipMemcpyHostToHost, dst=Pitched(part.ctypes.data, 3, 3, 2))
    box.src = Pitched(content.ctypes.data, 5, 6, 5)
    assert raw("hipMemcpy3D", ctypes.byref(box)) == E.hipErrorInvalidPitchValue  # rows overlap
    wider = flat(6, 5)
    box = Box(src_array=wider, dst_array=other, extent=Extent(3, 2, 1), kind=KIND.hipMemcpyDeviceToDevice)
    assert raw("hipMemcpy3D", ctypes.byref(box)) == E.hipErrorInvalidValue  # elements of other sizes
    free(array, other, wider)


def test_three_dimensions_as_nodes_and_in_driver_form():
    """A graph's copy names arrays too, and gives them back in its parameters; the driver's form counts bytes."""
    content, out = np.random.default_rng(7).integers(0, 256, (2, 3, 8), np.uint8), np.zeros((2, 3, 8), np.uint8)
    array = solid(8, 3, 2)
    graph, node, run = (ctypes.c_void_p() for _ in range(3))
    box = Box(extent=Extent(8, 3, 2), kind=KIND.hipMemcpyHostToDevice, dst_array=array)
    box.src = Pitched(content.ctypes.data, 8, 8, 3)
    assert raw("hipGraphCreate", ctypes.byref(graph), 0) == 0
    assert raw("hipGraphAddMemcpyNode", ctypes.byref(node), graph, None, SIZE(0), ctypes.byref(box)) == 0
    told = Box()
    assert raw("hipGraphMemcpyNodeGetParams", node, ctypes.byref(told)) == 0
    assert (told.dst_array, told.src.address) == (array.value, content.ctypes.data)
    driver = Driver()
    assert raw("hipDrvGraphMemcpyNodeGetParams", node, ctypes.byref(driver)) == 0
    assert (driver.dst_type, driver.dst_array) == (10, array.value)
    assert raw("hipGraphInstantiate", ctypes.byref(run), graph, None, None, SIZE(0)) == 0
    assert raw("hipGraphLaunch", run, None) == raw("hipDeviceSynchronize") == 0
    driver = Driver(src_type=10, src_array=array, dst_type=1, dst_host=out.ctypes.data, dst_pitch=8, dst_height=3)
    driver.width, driver.height, driver.depth = 8, 3, 2
    assert raw("hipDrvMemcpy3D", ctypes.byref(driver)) == 0
    assert (out == content).all()
    driver.src_x = 1
    assert raw("hipDrvMemcpy3D", ctypes.byref(driver)) == E.hipErrorInvalidValue
    assert raw("hipGraphExecDestroy", run) == raw("hipGraphDestroy", graph) == 0
    free(array)


def test_levels_of_detail_are_absent():
    array = ctypes.c_void_p()
    channels, extent = Channels(8, 0, 0, 0, UNSIGNED), Extent(4, 4, 0)
    status = raw("hipMallocMipmappedArray", ctypes.byref(array), ctypes.byref(channels), extent, 2, 0)
    assert status == E.hipErrorNotSupported
    assert raw("hipMallocMipmappedArray", None, ctypes.byref(channels), extent, 2, 0) == E.hipErrorInvalidValue
    assert raw("hipMallocMipmappedArray", ctypes.byref(array), None, extent, 2, 0) == E.hipErrorInvalidValue
    assert raw("hipFreeMipmappedArray", None) == E.hipErrorInvalidValue


def test_the_thread_s_own_stream():
    """The forms for the thread's own stream copy as the others do, and do not wait for the null stream's work."""
    array, host, back = flat(4, 2), np.arange(8, dtype=np.float32).reshape(2, 4), np.empty((2, 4), np.float32)
    there = (array, SIZE(0), SIZE(0), address(host), SIZE(16), SIZE(16), SIZE(2), KIND.hipMemcpyHostToDevice)
    here = (address(back), SIZE(16), array, SIZE(0), SIZE(0), SIZE(16), SIZE(2), KIND.hipMemcpyDeviceToHost)
    assert raw("hipMemcpy2DToArray_spt", *there) == raw("hipMemcpy2DFromArray_spt", *here) == 0
    assert (back == host).all()
    host += 1
    assert raw("hipMemcpy2DToArrayAsync_spt", *there, None) == 0
    assert raw("hipMemcpy2DFromArrayAsync_spt", *here, None) == raw("hipStreamSynchronize_spt", None) == 0
    assert (back == host).all()
    rows = (address(back), array, SIZE(0), SIZE(0), SIZE(32), KIND.hipMemcpyDeviceToHost)
    for form in ("hipMemcpyFromArray", "hipMemcpyFromArray_spt"):
        back[:] = -1
        assert raw(form, *rows) == 0
        assert (back == host).all()
        assert raw(form, None, *rows[1:]) == E.hipErrorInvalidValue
    free(array)


def test_channels_of_an_array():
    array, told = flat(4, 2, channels=2), Channels()
    assert raw("hipGetChannelDesc", ctypes.byref(told), array) == 0
    assert [told.x, told.y, told.z, told.w, told.kind] == [32, 32, 0, 0, FLOAT]
    assert raw("hipGetChannelDesc", None, array) == E.hipErrorInvalidValue
    free(array)
    assert raw("hipGetChannelDesc", ctypes.byref(told), array) == E.hipErrorInvalidValue
