"""Providers: which are tried, what they carry, and that nothing else asks a provider for its name."""

import ast

import pytest

import hiprt
from hiprt import dlpack
from hiprt.provider import CPU, NULL, NVIDIA, PROVIDERS, ROCM, wanted

# provider.py knows providers by name; the command line and the flags offer the names as choices.
NAMES = {each.name for each in PROVIDERS} | {"metal"}
PACKAGES = ("hiprt", "allocator", "kernels", "graphs", "metal_compat", "bench")


def test_auto_tries_what_runs_kernels_and_a_name_only_itself():
    assert wanted("auto") == (ROCM, NVIDIA, CPU)
    assert [wanted(each.name) for each in PROVIDERS] == [(each,) for each in PROVIDERS]


def test_a_device_carries_the_provider_of_the_library():
    device = hiprt.current_device()
    assert device.provider is hiprt.library.current().provider
    assert f"{device.provider}" == device.provider.name


def test_every_provider_has_options_for_every_math_mode():
    assert all(set(each.math_modes) == {"safe", "relaxed", "fast"} for each in PROVIDERS)


@pytest.mark.parametrize("each", [CPU, NULL])
def test_memory_of_the_host_is_the_host_s_for_dlpack(each):
    assert each.dlpack_device in each.dlpack_usable == (dlpack.CPU,)


def names_compared(tree):
    """The lines where a provider's name, or a provider, is compared or looked up by."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asked = any("provider" in ast.unparse(side) for side in sides)
            words = {each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)}
            if asked and words & NAMES:
                yield node.lineno
        elif isinstance(node, (ast.Subscript, ast.Call)) and "provider.name" in ast.unparse(node):
            is_look_up = isinstance(node, ast.Subscript) or ast.unparse(node.func).endswith(".get")
            if is_look_up:
                yield node.lineno


@pytest.mark.parametrize(
    "text",
    ['device.provider == "cpu"', 'x.provider.name in ("rocm", "cpu")', "T[d.provider.name]", "T.get(d.provider.name)"],
)
def test_the_search_finds_comparisons(text):
    assert list(names_compared(ast.parse(text))) == [1]


def test_only_provider_py_compares_names(root):
    """What differs between providers is an attribute of the provider."""
    found = [
        f"{path.relative_to(root)}:{line}"
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        if path != root / "hiprt" / "provider.py" and "/build/" not in str(path)
        for line in names_compared(ast.parse(path.read_text()))
    ]
    assert not found
