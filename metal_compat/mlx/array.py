"""``mx.array``: a lazy array with the methods and operators of MLX's."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, array as on_device
from hiprt.graphs.trace import lazy
from hiprt.graphs.trace.core import HostView, Lazy, apply, declare, pin
from hiprt.metal_compat.mlx import dtypes
from hiprt.metal_compat.mlx.dtypes import Dtype
from hiprt.metal_compat.mlx.printing import text_of

__all__ = ["apply", "array", "as_array", "checked", "held", "host_from", "host_of", "packed"]

INT32 = range(-(2**31), 2**31)
EIGHT_BYTES = {"int64": "q", "uint64": "Q"}
UNEVEN = "Initialization encountered non-uniform length."
# Lists that receive each array whose sizes are read: functions are traced meanwhile; see `compiled`.
readers: list[list[array]] = []


class array(Lazy, HostView):  # noqa: N801
    """An array of ``mlx.core``: what an op made of others, computed when it is needed.

    Parameters
    ----------
    val : number, list, tuple, numpy.ndarray or array
        Python floats become float32, integers int32 (int64 where one needs it), numpy's float64 float32. Lists may hold
        arrays of one shape. What else has the buffer protocol, DLPack or ``__array__`` is copied.
    dtype : Dtype, optional

    Attributes
    ----------
    value : hiprt.Array
        The value behind it, of `hiprt.graphs.trace.lazy`. Assignments (``a[0] = x``) put another one in its place.
    """

    __slots__ = ("__weakref__",)
    __array_priority__ = 100  # operators of numpy arrays give way to ours; numpy's functions take ours as they are

    def __init__(self, val: Any, dtype: Dtype | None = None) -> None:
        self.value: Array = value_from(val, dtype)

    @staticmethod
    def around(value: Array) -> array:
        """Return an array around a value."""
        made = array.__new__(array)
        made.value = value
        return made

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Methods are the functions of the same names; see `hiprt.metal_compat.mlx.methods`."""

        def astype(self, dtype: Dtype, stream: Any = None) -> array:
            """Return the array in another dtype."""

        def reshape(self, *shape: Any, stream: Any = None) -> array:
            """Return the elements in another shape."""

        def __neg__(self) -> array: ...

        def __getitem__(self, index: Any) -> array: ...

        def __setitem__(self, index: Any, x: Any) -> None: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        for each in readers:
            each.append(self)
        return self.value.shape

    @property
    def dtype(self) -> Dtype:
        """The dtype."""
        return dtypes.of(self.value.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.value.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        for each in readers:
            each.append(self)
        return self.value.size

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        for each in readers:
            each.append(self)
        return self.value.nbytes

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.value.dtype.itemsize

    def __len__(self) -> int:
        if not self.value.ndim:
            raise TypeError("len() 0-dimensional array.")
        return self.shape[0]

    def __iter__(self) -> Iterator[array]:
        if not self.value.ndim:
            raise TypeError("iteration over 0-dimensional array.")
        return iter([self[i] for i in range(self.shape[0])])

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy on the host, in numpy's dtype; bfloat16 as `ml_dtypes` has it."""
        return lazy.read(self.value)

    def host_view(self) -> tuple[Any, int, int, str, tuple[int, ...], tuple[int, ...]]:
        """Return a copy on the host for the buffer protocol: its memory, address, item size, format, shape and strides.

        The strides, in bytes, are those on the device; what is written there does not reach the array.
        """
        copy = device_array(self).mirror()
        lazy.check()
        dtype = copy.dtype
        # numpy writes "L" for what the protocol calls "Q" on every platform.
        form = "bfloat16" if dtype == dtypes.bfloat16.numpy else EIGHT_BYTES.get(dtype.name) or copy.data.format
        return copy, copy.ctypes.data, dtype.itemsize, form, copy.shape, copy.strides

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        host = self.numpy()
        return host if dtype is None else host.astype(dtype)

    def item(self) -> Any:
        """Return the only element as a Python number."""
        if self.value.size != 1:
            raise ValueError("item can only be called on arrays of size 1.")
        return self.tolist() if not self.value.ndim else self.numpy().reshape(()).tolist()

    def tolist(self) -> Any:
        """Return the elements as Python numbers, in nested lists."""
        host = self.numpy()
        return (host.astype(np.float32) if host.dtype == dtypes.bfloat16.numpy else host).tolist()

    def __dlpack__(self, **options: Any) -> Any:
        memory = device_array(self)
        pin(memory)
        return memory.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return device_array(self).__dlpack_device__()

    def __bool__(self) -> bool:
        return bool(self.item())

    def scalar(self) -> Any:
        """Return the only element, for a conversion to a Python number."""
        if self.value.size != 1:
            raise ValueError("[convert] Only length-1 arrays can be converted to Python scalars.")
        return self.item()

    def __int__(self) -> int:
        return int(self.scalar())

    def __float__(self) -> float:
        return float(self.scalar())

    def __complex__(self) -> complex:
        return complex(self.scalar())

    def __index__(self) -> int:
        if self.value.dtype.kind not in "iub" or self.value.size != 1:
            raise TypeError("only integer arrays of one element can be used as an index")
        return int(self.item())

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        host = self.numpy()
        return text_of(host.astype(np.float32) if host.dtype == dtypes.bfloat16.numpy else host, self.dtype.name)

    def __format__(self, spec: str) -> str:
        if spec and self.value.ndim:
            raise TypeError("unsupported format string passed to mx.array.__format__")
        return format(self.item(), spec) if spec else repr(self)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """Return the module that has the functions of arrays."""
        return sys.modules[__package__]

    def __copy__(self) -> array:
        return array.around(self.value)

    def __deepcopy__(self, memo: Any) -> array:
        return array.around(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickled, (self.numpy(), self.dtype)


def unpickled(host: np.ndarray[Any, Any], dtype: Dtype) -> array:
    """Return an array that was pickled."""
    return array(host, dtype)


def checked(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape whose sizes fit 32 bits.

    Raises
    ------
    OverflowError
        One does not.
    """
    for n in shape:
        if not -(2**31) <= n < 2**31:
            raise OverflowError(
                f"Shape dimension {n} is outside the supported range [-2147483648, 2147483647]. MLX currently uses "
                "32-bit integers for shape dimensions."
            )
    return tuple(shape)


def value_from(val: Any, dtype: Dtype | None) -> Array:
    """Return the value of what `array` is given."""
    if hasattr(val, "__mlx_array__"):
        val = val.__mlx_array__()
    if isinstance(val, array):
        return val.value if dtype is None or dtype is val.dtype else cast(val, dtype)
    if isinstance(val, (list, tuple)) and has_arrays(val):
        parts = [each if isinstance(each, array) else array(each) for each in val]
        if any(each.shape != parts[0].shape for each in parts):
            raise ValueError(UNEVEN)
        made = apply(stacked, parts)
        return made.value if dtype is None else cast(made, dtype)
    if isinstance(val, Array):
        made = held(val)
        return made.value if dtype is None else cast(made, dtype)
    if hasattr(val, "__dlpack__") and not isinstance(val, np.ndarray):
        val = host_of(val)
    if isinstance(val, (bytes, bytearray)):
        val = np.frombuffer(val, np.uint8)
    if isinstance(val, (str, dict, set)) or val is None:
        raise ValueError(f"Invalid type {type(val).__name__} received in array initialization.")
    return lazy.value_of(on_device(host_from(val, dtype)))


def host_of(val: Any) -> Any:
    """Return an array of another library on the host."""
    if hasattr(val, "detach"):  # torch has a bfloat16, numpy's DLPack has none
        val = val.detach().cpu()
        if str(val.dtype) == "torch.bfloat16":
            return val.float().numpy().astype(dtypes.bfloat16.numpy)
        try:
            return val.numpy()
        except TypeError as error:
            raise ValueError(f"Invalid type {val.dtype} received in array initialization: {error}.") from None
    return np.from_dlpack(val)


def host_from(val: Any, dtype: Dtype | None) -> np.ndarray[Any, Any]:
    """Return numbers as an array of numpy, in the dtype that MLX gives them."""
    try:
        host = np.asarray(val)
    except ValueError:
        raise ValueError(UNEVEN) from None
    if dtype is not None:
        return host.astype(dtype.numpy)
    if isinstance(val, np.ndarray) or isinstance(val, np.generic):
        checked(host.shape)
        narrow = {"float64": np.float32, "complex128": np.complex64}.get(host.dtype.name)
        return host if narrow is None else host.astype(narrow)
    kind = host.dtype.kind
    if kind == "f" or not host.size:
        return host.astype(np.float32)
    if kind == "c":
        return host.astype(np.complex64)
    if kind in "iu":
        return host.astype(np.int32 if int(host.min()) in INT32 and int(host.max()) in INT32 else np.int64)
    if kind != "b":
        raise ValueError(f"Invalid type {type(val).__name__} received in array initialization.")
    return host


def has_arrays(val: Any) -> bool:
    """Whether nested lists hold arrays."""
    return any(isinstance(each, array) or (isinstance(each, (list, tuple)) and has_arrays(each)) for each in val)


def stacked(values: list[Array]) -> Array:
    """Return values joined along a new first axis."""
    return kernels.concatenate([value[None] for value in values], 0)


def cast(a: array, dtype: Dtype) -> Array:
    """Return the value of an array in another dtype."""
    made: array = apply(kernels.astype, a, dtype.numpy)
    return made.value


def held(memory: Array) -> array:
    """Return an array of what lies in device memory, which is never written over."""
    pin(memory)
    return array.around(lazy.value_of(memory))


def as_array(x: Any, dtype: Dtype | None = None) -> array:
    """Return an array as it is, and what else `array` takes as one."""
    return x if type(x) is array and (dtype is None or dtype is x.dtype) else array(x, dtype)


def packed(x: Array) -> Array:
    """Return a value with its elements in order, without gaps."""
    return x if x.is_contiguous else kernels.contiguous(x)


def device_array(a: array) -> Array:
    """Return what an array is in device memory, computed if need be."""
    lazy.evaluate([a.value])
    found = lazy.held(a.value)
    assert found is not None
    return found


declare(lazy.trace, array, lazy.value_of)
