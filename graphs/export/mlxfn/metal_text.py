"""MLX's generated Metal text: the kernel's body, names and template, as `metal_kernel` takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["kernel_of"]

SIGNATURE = re.compile(r"(?:template <(?P<template>[^>]*)>\s*)?\[\[kernel\]\] void (?P<name>\w+)\(\n")
INPUT = re.compile(r"\s*const (?:device|constant) [\w:]+ ?[*&] ?(\w+) \[\[buffer\(\d+\)\]\]")
OUTPUT = re.compile(r"\s*device (atomic<)?[\w:]+>?\* ?(\w+) \[\[buffer\(\d+\)\]\]")
EXTRA = re.compile(r"\s*const constant (?:int|int64_t)[*&] \w+_(?:shape|strides|ndim) \[\[buffer\(\d+\)\]\]")
WORDS: dict[str, Any] = {
    **{
        f"{name}_t": np.dtype(name)
        for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
    },
    "bool": np.dtype(np.bool_),
    "float16_t": np.dtype(np.float16),
    "bfloat16_t": np.dtype(ml_dtypes.bfloat16),
    "float": np.dtype(np.float32),
    "complex64_t": np.dtype(np.complex64),
}


def kernel_of(name: str, source: str, shapes: Sequence[Any]) -> tuple[dict[str, Any], list[tuple[str, Any]] | None]:
    """Return the arguments of `metal_kernel` that make a kernel from its generated text, and the call's template.

    Parameters
    ----------
    name : str
        The generated name.
    source : str
        The whole text of a kernel as MLX writes it to a file.
    shapes : sequence
        One for each input.

    Raises
    ------
    ValueError
        It is no such text.
    """
    match = SIGNATURE.search(source)
    end = source.rfind("\n}\n")
    if match is None or end < 0:
        raise ValueError("its text has no kernel")
    inputs: list[str] = []
    outputs: list[str] = []
    at, atomic = match.end(), False
    for line in source[at:].split("\n"):
        taken, made = INPUT.match(line), OUTPUT.match(line)
        if EXTRA.match(line) is None and taken is not None and not outputs and len(inputs) < len(shapes):
            inputs.append(taken[1])
        elif made is not None:
            outputs.append(made[2])
            atomic |= made[1] is not None
        at += len(line) + 1
        if line.endswith(") {"):
            break
    if len(inputs) != len(shapes) or not outputs or at > end + 1:
        raise ValueError("its text does not declare its arrays as MLX does")
    short = re.sub(r"^custom_kernel_", "", match["name"])
    definition = {
        "name": short,
        "input_names": inputs,
        "output_names": outputs,
        "source": source[at:end],
        "header": source[: match.start()],
        "ensure_row_contiguous": True,
        "atomic_outputs": atomic,
    }
    return definition, template_of(match["template"], source[end:]) if match["template"] else None


def template_of(declared: str, behind: str) -> list[tuple[str, Any]]:
    """Return a template's names and values, which the text behind the kernel has."""
    parameters = [each.split() for each in declared.split(",")]
    values = re.search(r"decltype\(\w+<(.*)>\)", behind)
    given = [each.strip() for each in values[1].split(",")] if values else []
    if len(given) != len(parameters) or any(len(each) != 2 for each in parameters):
        raise ValueError("its template has no values")
    return [(parameter, value_of(kind, text)) for (kind, parameter), text in zip(parameters, given)]


def value_of(kind: str, text: str) -> Any:
    """Return a value of a template."""
    if kind == "typename" and text in WORDS:
        return WORDS[text]
    if kind in ("int", "bool") and re.fullmatch(r"-?\d{1,10}", text):
        return bool(int(text)) if kind == "bool" else int(text)
    raise ValueError(f"its template has a value {text!r:.40}")
