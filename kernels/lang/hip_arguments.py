"""Declared arguments of plain HIP kernels: what a call may pass, and what the compiler asserts of the kernel."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from hiprt.array import Array, bfloat16, dtype_of
from hiprt.module import ADDRESS, FORMATS, READ, READ_WRITE, SCALAR, WRITE, Argument, kind_of

__all__ = ["TRAITS", "Declared", "assertions"]

NUMBERS = (int, float, np.integer, np.floating, np.bool_)
ACCESS = {"read": READ, "write": WRITE, "update": READ_WRITE}
# The templates that `assertions` uses, under names that no user's macro has. The count alone reports parameters that a
# kernel lacks.
TRAITS = """
#ifdef __CUDACC_RTC__
#define HIPRT_OFFSET(type, field) __INTADDR__(&((type*)0)->field)
#else
#define HIPRT_OFFSET(type, field) __builtin_offsetof(type, field)
#endif
namespace hiprt_declared {
struct missing {};
template <int I, class... P> struct nth { typedef missing type; };
template <class F, class... P> struct nth<0, F, P...> { typedef F type; };
template <int I, class F, class... P> struct nth<I, F, P...> { typedef typename nth<I - 1, P...>::type type; };
template <class K> struct hiprt_kernel;
template <class... P> struct hiprt_kernel<void (*)(P...)> {
  static constexpr int hiprt_count = sizeof...(P);
  template <int I> using hiprt_at = typename nth<I, P...>::type;
};
template <class T> struct is_float { static constexpr bool hiprt_value = false; };
template <> struct is_float<float> { static constexpr bool hiprt_value = true; };
template <> struct is_float<double> { static constexpr bool hiprt_value = true; };
template <class T, int S, int A, bool F> struct hiprt_is_value {
  static constexpr bool hiprt_value = sizeof(T) == S && alignof(T) == A && is_float<T>::hiprt_value == F;
};
template <class T, int S, int A, bool F> struct hiprt_is_value<T*, S, A, F> {
  static constexpr bool hiprt_value = false;
};
template <int S, int A, bool F> struct hiprt_is_value<missing, S, A, F> { static constexpr bool hiprt_value = true; };
template <class T> struct hiprt_is_address : hiprt_is_value<T, 8, 8, false> {};
template <class T> struct hiprt_is_address<T*> { static constexpr bool hiprt_value = true; };
template <class T> struct hiprt_is_address<T* __restrict__> : hiprt_is_address<T*> {};
template <> struct hiprt_is_address<missing> { static constexpr bool hiprt_value = true; };
template <class T> struct size { static constexpr int hiprt_value = sizeof(T); };
template <> struct size<void> { static constexpr int hiprt_value = 0; };
template <> struct size<const void> { static constexpr int hiprt_value = 0; };
template <class T> struct is_float<const T> : is_float<T> {};
template <class T> struct is_const { static constexpr bool hiprt_value = false; };
template <class T> struct is_const<const T> { static constexpr bool hiprt_value = true; };
template <class T, int S, bool W> struct hiprt_is_buffer { static constexpr bool hiprt_value = false; };
template <class T, int S, bool W> struct hiprt_is_buffer<T*, S, W> {
  static constexpr int bytes = size<T>::hiprt_value;
  // A float is no part of what several smaller elements are, as an integer or a vector may be; bytes may be anything.
  static constexpr bool is_whole = is_float<T>::hiprt_value ? bytes == S || S == 1 : bytes % S == 0;
  static constexpr bool hiprt_value = !(W && is_const<T>::hiprt_value) && (is_whole || bytes == 1);
};
template <class T, int S, bool W> struct hiprt_is_buffer<T* __restrict__, S, W> : hiprt_is_buffer<T*, S, W> {};
template <int S, bool W> struct hiprt_is_buffer<missing, S, W> { static constexpr bool hiprt_value = true; };
}  // namespace hiprt_declared
"""


@dataclass(frozen=True)
class Declared:
    """One argument of a kernel.

    Attributes
    ----------
    name : str
    access : int
        `hiprt.module.SCALAR`, `READ`, `WRITE` or `READ_WRITE`.
    dtype : numpy.dtype or None
        The dtype of a buffer's elements (None: any), or of a value.
    over : tuple of str
        The arguments whose memory it may take, as in `hiprt.Argument`.
    """

    name: str
    access: int
    dtype: np.dtype[Any] | None
    over: tuple[str, ...] = ()

    @classmethod
    def parse(cls, name: str, text: Any, types: Mapping[str, Any]) -> Declared:
        """Read a declaration.

        Parameters
        ----------
        name : str
        text : str or dtype
            ``read``, ``write`` or ``update`` (reads and writes) and the elements' dtype, which may be left out; a
            value's dtype alone, which may be structured, or ``address``; a dtype may be the name of a template
            parameter. ``over`` and names with commas between them may follow ``write`` and the dtype.
        types : mapping
            The template parameters and their values.

        Raises
        ------
        ValueError
            The text is no declaration.
        """
        word, _, rest = text.partition(" ") if isinstance(text, str) else ("", "", text)
        access = ACCESS.get(word, SCALAR)
        over: tuple[str, ...] = ()
        if access == WRITE and "over" in rest.split():
            rest, _, names = f" {rest} ".partition(" over ")
            over = tuple(each.strip() for each in names.split(","))
        kind = (rest.strip() or None) if access else text
        if isinstance(kind, str) and kind in types:
            kind = types[kind]
            if not isinstance(kind, np.dtype):
                if not access:
                    raise ValueError(f"{name}: {text!r} is {kind!r}; what is passed by value needs a dtype")
                kind = None  # a C++ type does not determine the array's dtype
        try:
            if text is None or (isinstance(kind, str) and len(kind) == 1):
                raise TypeError  # numpy would take None and the one-letter codes of its types
            return cls(name, access, None if kind is None else value_dtype(kind), over).valid()
        except (TypeError, SyntaxError):  # numpy parses some texts as Python
            raise ValueError(
                f"{name}: {text!r} is no declaration; it is `read`, `write` or `update` and a dtype for a buffer, or "
                "the dtype of a value"
            ) from None

    def valid(self) -> Declared:
        """Refuse a dtype that is no number, and a structure whose layout C would not have."""
        if self.dtype is not None and self.dtype.kind not in "biufcV":
            raise TypeError(self.dtype)
        if self.access == SCALAR and self.dtype is not None:
            if self.dtype.fields:
                check_layout(self.name, self.dtype)
            elif self.dtype.name not in FORMATS and self.dtype != bfloat16:
                raise TypeError(self.dtype)
        return self

    @cached_property
    def is_structure(self) -> bool:
        """Whether the value is passed as bytes."""
        return self.access == SCALAR and self.dtype is not None and self.dtype.name not in FORMATS

    @cached_property
    def pack(self) -> Callable[[float], bytes]:
        """The function from a number to its bytes, which raises OverflowError."""
        if self.dtype is None or self.is_structure:
            return pack_bfloat16
        return struct.Struct("<" + FORMATS[self.dtype.name]).pack

    @property
    def argument(self) -> Argument:
        """The argument as `hiprt.Function` takes it."""
        if self.access or self.dtype is None:
            return Argument(self.name, self.access, over=self.over)
        if self.is_structure:
            size, alignment = self.dtype.itemsize, self.dtype.alignment
            places = tuple(addresses_in(self.dtype))
            return Argument(self.name, SCALAR, "bytes", size=size, alignment=alignment, addresses=places)
        return Argument(self.name, SCALAR, "address" if is_address(self.dtype) else self.dtype.name)

    def value(self, given: Any, *, strided: bool) -> Any:
        """Return the argument that a launch gets for the value of a call.

        Raises
        ------
        TypeError
            The value is of another kind or dtype.
        ValueError
            The value does not fit the dtype, or is an array with gaps.
        """
        if self.access:
            return self.buffer(given, strided=strided)
        assert self.dtype is not None
        if self.dtype.fields:
            return np.asarray(structure(self.name, given, self.dtype), self.dtype).tobytes()
        if self.dtype.kind in "iub":
            return integer(self.name, given, self.dtype)
        if not isinstance(given, NUMBERS):
            raise TypeError(by_value(self.name, given, self.dtype))
        number = float(given)
        try:
            packed = self.pack(number)
        except OverflowError:
            raise ValueError(f"{self.name}={given!r} does not fit {self.dtype}") from None
        return packed if self.is_structure else number

    def buffer(self, given: Any, *, strided: bool) -> Array:
        """Return an array after checking its dtype and its layout."""
        if not isinstance(given, Array):
            how = "; varying= of a step puts a number in device memory" if isinstance(given, NUMBERS) else ""
            raise TypeError(f"{self.name} is {kind_of(given)}; a hiprt.Array is declared{how}")
        if self.dtype is not None and given.dtype != self.dtype:
            raise TypeError(f"{self.name} is an array of {given.dtype}; {self.dtype} is declared")
        if not given.is_contiguous and not strided:
            raise ValueError(f"{self.name} is not contiguous: copy it, or make the kernel with strided=True")
        return given


def value_dtype(text: Any) -> np.dtype[Any]:
    """Return the dtype that a declaration names; ``address`` is `ADDRESS`."""
    return ADDRESS if isinstance(text, str) and text == "address" else dtype_of(text)


def is_address(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is `ADDRESS`; numpy's comparison ignores the metadata that tells it from uint64."""
    return dtype == ADDRESS and dtype.metadata == ADDRESS.metadata


def addresses_in(dtype: np.dtype[Any], start: int = 0) -> Iterator[int]:
    """Yield the offset of each address in a structure, in bytes."""
    if is_address(dtype.base):
        yield from range(start, start + dtype.itemsize, ADDRESS.itemsize)
    elif dtype.base.fields:
        for each in range(start, start + dtype.itemsize, dtype.base.itemsize):
            for kind, offset, *_ in dtype.base.fields.values():
                yield from addresses_in(kind, each + offset)


def check_layout(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse a structure without C's alignment, or with fields that cannot be C++ members."""
    if not dtype.isalignedstruct:
        raise ValueError(f"{name}: {dtype} is packed; C's layout is np.dtype([...], align=True)")
    for field, (kind, *_) in (dtype.fields or {}).items():
        if not field.isidentifier():
            raise ValueError(f"{name}: {field!r} is not the name of a member")
        if kind.base.fields:
            check_layout(f"{name}.{field}", kind.base)
        elif kind.base.hasobject or kind.base.kind in "SU":
            raise ValueError(f"{name}.{field}: {kind.base} is not a type of C")


def structure(name: str, given: Any, dtype: np.dtype[Any]) -> Any:
    """Return a structure's value for numpy: a record as it is, a mapping or sequence as nested tuples."""
    if isinstance(given, (np.ndarray, np.void)):
        if given.dtype != dtype or given.shape:
            raise TypeError(f"{name} is {kind_of(given)}; one record of {dtype} is passed by value")
        return given
    fields: Mapping[str, Any] = dtype.fields or {}
    if isinstance(given, Mapping):
        wrong = [*(given.keys() - fields.keys()), *(fields.keys() - given.keys())]
        if wrong:
            raise ValueError(f"{name}: fields {', '.join(map(str, sorted(wrong)))}; {', '.join(fields)} are declared")
        given = tuple(given[field] for field in fields)
    if not isinstance(given, (tuple, list)) or len(given) != len(fields):
        raise TypeError(f"{name} is {given!r}; values of {', '.join(fields)} are passed, by name or in this order")
    return tuple(member(f"{name}.{field}", value, fields[field][0]) for field, value in zip(fields, given))


def member(name: str, given: Any, dtype: np.dtype[Any]) -> Any:
    """Return one field's value."""
    if dtype.fields:
        return structure(name, given, dtype)
    if dtype.kind in "iub":
        return integer(name, given, dtype)
    try:
        return np.asarray(given, dtype.base).reshape(dtype.shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={given!r}: {error}") from None


def integer(name: str, given: Any, dtype: np.dtype[Any]) -> int:
    """Return an integer after checking that it fits the dtype."""
    try:
        number = operator.index(given.item() if isinstance(given, np.bool_) else given)
    except TypeError:
        raise TypeError(by_value(name, given, dtype)) from None
    low, high = limits(dtype)
    if not low <= number <= high:
        raise ValueError(f"{name}={given!r} does not fit {dtype}")
    return number


def by_value(name: str, given: Any, dtype: np.dtype[Any]) -> str:
    """Say that a value is of another kind than what is passed by value."""
    how = f"; a kernel with a pointer, declared as 'read {dtype}', takes it" if isinstance(given, Array) else ""
    return f"{name} is {kind_of(given)}; a {dtype} is passed by value{how}"


def pack_bfloat16(number: float) -> bytes:
    """Return a number's bytes as bfloat16."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(number).astype(bfloat16)
    if np.isinf(rounded) and not math.isinf(number):
        raise OverflowError
    return rounded.tobytes()


@cache
def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the largest integer of a dtype."""
    return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def assertions(kernel: str, arguments: tuple[Declared, ...]) -> Iterator[str]:
    """Yield the C++ assertions that a kernel must satisfy.

    Parameters
    ----------
    kernel : str
        The kernel as a C++ expression: ``axpy<float>``.
    arguments : tuple of Declared
    """
    known = f"hiprt_declared::hiprt_kernel<decltype(&{kernel})>"
    names = ", ".join(a.name for a in arguments) or "none"
    yield (
        f"static_assert({known}::hiprt_count == {len(arguments)}, "
        f'"{kernel} takes another number of arguments than declared: {names}");'
    )
    for i, argument in enumerate(arguments):
        at = f"{known}::hiprt_at<{i}>"
        if argument.access:
            size = argument.dtype.itemsize if argument.dtype else 1
            written = str(argument.access != READ).lower()
            what = f"a buffer{f' of {argument.dtype}' if argument.dtype else ''}"
            what += " that is written" if argument.access != READ else ""
            yield (
                f"static_assert(hiprt_declared::hiprt_is_buffer<{at}, {size}, {written}>::hiprt_value, "
                f'"{argument.name} of {kernel} is declared as {what}");'
            )
        else:
            yield from value_assertions(kernel, argument, at)


def value_assertions(kernel: str, argument: Declared, at: str) -> Iterator[str]:
    """Yield the assertions for an argument that is passed by value."""
    dtype = argument.dtype
    assert dtype is not None
    is_float = str(dtype.name in ("float32", "float64")).lower()
    what = f"{argument.name} of {kernel} is declared as"
    if is_address(dtype):
        yield f'static_assert(hiprt_declared::hiprt_is_address<{at}>::hiprt_value, "{what} an address");'
        return
    shown = dtype.name if not dtype.fields else f"a structure of {dtype.itemsize} bytes"
    yield (
        f"static_assert(hiprt_declared::hiprt_is_value<{at}, {dtype.itemsize}, {dtype.alignment}, {is_float}>"
        f'::hiprt_value, "{what} {shown}");'
    )
    for field, (kind, offset, *_) in (dtype.fields or {}).items():
        yield (
            f"static_assert(HIPRT_OFFSET({at}, {field}) == {offset} && "
            f"sizeof((({at}*)0)->{field}) == {kind.itemsize}, "
            f'"{what} having {field}, of {kind.itemsize} bytes, at {offset}");'
        )
