"""The source tree: who may import and include whom, that nobody does in a circle, and names."""

import ast
import os
import re
import shutil
import subprocess
import sys

PACKAGES = {
    **{name: name for name in ("graphs", "allocator", "kernels", "metal_compat", "bench")},
    "distributed": "hiprt/distributed",
    "torch": "hiprt/torch",
}
MAY_IMPORT = {
    "base": set(),
    "allocator": set(),
    "kernels": {"allocator"},
    "graphs": {"allocator", "kernels"},
    "distributed": {"kernels"},
    "torch": {"graphs"},
    "metal_compat": {"kernels", "graphs", "allocator", "distributed"},  # the Apple runner encodes recordings
    "bench": {"allocator", "kernels", "graphs", "metal_compat", "distributed", "torch"},
}
# What C and C++ of a folder may include besides its own headers: the core's layers, and libraries that stand alone.
MAY_INCLUDE = {
    "hiprt/native": ["hiprt/native/include", "hiprt/native/cache"],
    "hiprt/native/cache": [],
    "allocator/native": ["hiprt/native", "hiprt/native/include"],
    "graphs/native": ["hiprt/native", "hiprt/native/include", "allocator/native"],
    "hiprt/cpu": ["hiprt/native/include", "hiprt/native/cache"],
    "hiprt/nvidia": ["hiprt/native/include"],
    "hiprt/null": ["hiprt/native/include"],
}
GENERATED = {"code_generation.h"}
# The command line and operators open the upper layers inside functions; `hiprt` names them for type checkers only.
LAZY = {"hiprt/__init__.py", "hiprt/__main__.py", "hiprt/doctor.py", "hiprt/operators.py"}


def sources(root):
    """Yield (layer, file) of every Python source."""
    for file in sorted((root / "hiprt").glob("*.py")) + sorted((root / "hiprt" / "native").glob("*.py")):
        yield "base", file
    for package, folder in PACKAGES.items():
        for file in sorted((root / folder).rglob("*.py")):
            yield package, file


def imported(tree, top_level_only):
    """Names of the modules a file imports."""
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))


def test_layers(root):
    """Base imports nothing of ours above it; each package imports only what MAY_IMPORT allows."""
    for layer, file in sources(root):
        lazy = str(file.relative_to(root)) in LAZY
        for name in imported(ast.parse(file.read_text()), top_level_only=lazy):
            parts = name.split(".")
            if parts[0] == "hiprt" and len(parts) > 1 and parts[1] in PACKAGES and parts[1] != layer:
                assert parts[1] in MAY_IMPORT[layer], f"{file.relative_to(root)} imports {name}"
            # torch is a library as well.
            assert parts[0] not in PACKAGES.keys() - {"torch"}, (
                f"{file.relative_to(root)} imports {name} past the package"
            )


def c_sources(root, folder):
    """The C and C++ files of a folder; of the CPU device without what its kernels include."""
    files = [file for end in ("c", "h", "cpp") for file in (root / folder).rglob(f"*.{end}")]
    return sorted(file for file in files if root / folder / "include" not in file.parents)


def included(root, folder, file):
    """The files of ours that a C or C++ file includes, each found where the folder may look."""
    places = [file.parent, root / folder, *(root / place for place in MAY_INCLUDE[folder])]
    for name in re.findall(r'^#include "(.*)"', file.read_text(), re.MULTILINE):
        if name not in GENERATED:
            found = [place / name for place in places if (place / name).exists()]
            assert found, f"{file.relative_to(root)} includes {name}, which is not in {folder} or {MAY_INCLUDE[folder]}"
            yield found[0].resolve()


def test_includes_obey_the_layers(root):
    """Base includes nothing of ours above it; libraries that stand alone include HIP's headers and their own."""
    for folder in MAY_INCLUDE:
        files = c_sources(root, folder)
        assert files, folder
        for file in files:
            list(included(root, folder, file))


def circles(edges):
    """Sets of two or more that reach each other, from what each leads to (Tarjan's strongly connected components)."""
    order, low, path, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        path.append(node)
        for following in edges.get(node, ()):
            if following not in order:
                visit(following)
            if following in path:
                low[node] = min(low[node], low[following])
        if low[node] == order[node]:
            at = path.index(node)
            found.append(set(path[at:]))
            del path[at:]

    for node in edges:
        if node not in order:
            visit(node)
    return [sorted(each) for each in found if len(each) > 1]


def test_circles_are_found():
    """A circle of three, one of two that leads to it, and what only leads to a circle."""
    edges = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["e", "a"], "e": ["d"], "f": ["d"]}
    assert sorted(circles(edges)) == [["a", "b", "c"], ["d", "e"]]


def test_no_include_goes_in_a_circle(root):
    """A header and the C file of its name count as one."""
    edges = {}
    for folder in MAY_INCLUDE:
        for file in c_sources(root, folder):
            mine = str(file.with_suffix("").relative_to(root))
            its = {str(each.with_suffix("").relative_to(root)) for each in included(root, folder, file)}
            edges.setdefault(mine, set()).update(its - {mine})
    assert not circles(edges)


def module_name(root, file):
    """The name a Python source is imported by."""
    parts = file.relative_to(root).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == "hiprt" else ("hiprt", *parts))


def statements(tree):
    """Every node of a syntax tree that runs: all but what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from statements(node)


def test_no_import_goes_in_a_circle(root):
    """At the top of a module or inside its functions."""
    names = {module_name(root, file): file for _, file in sources(root)}
    edges = {}
    for name, file in names.items():
        edges[name] = set()
        for node in statements(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                edges[name].update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module, node.names[0].name) != ("hiprt", "_core"):
                inside = [f"{node.module}.{alias.name}" for alias in node.names]
                edges[name].update(each if each in names else node.module for each in inside)
        edges[name] &= names.keys() - {name}
    assert not circles(edges)


def test_only_core_imports_the_extension(root):
    """One module names hiprt._core."""
    for _, file in sources(root):
        if file.name != "core.py":
            assert "hiprt._core" not in set(imported(ast.parse(file.read_text()), False)), file


def test_a_source_folder_that_is_not_built_says_so(root, tmp_path):
    """Python finds it before the installed package when it runs in a checkout."""
    shutil.copytree(root / "hiprt", tmp_path / "hiprt", ignore=shutil.ignore_patterns("*.so", *PACKAGES), symlinks=True)
    # Without the finder of an editable installation, which would find the core of that one.
    code = "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'frozen' in repr(f)]; import hiprt"
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=clean(), capture_output=True, text=True, check=False
    )
    assert child.returncode == 1
    said = f"ImportError: hiprt was imported from {tmp_path / 'hiprt'}, which is a source folder that is not built"
    assert child.stderr.splitlines()[-1].startswith(said)
    assert "circular" not in child.stderr


def clean():
    """The environment without what leads Python to this tree."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_links_make_one_tree(root):
    """hiprt/<package> is a link to the package's folder, where it is not that."""
    for package, folder in PACKAGES.items():
        assert os.path.samefile(root / "hiprt" / package, root / folder)


def test_import_opens_no_gpu_library():
    """`import hiprt` and its packages load neither a HIP library nor hip-python's bindings."""
    code = (
        "import sys, hiprt, hiprt.graphs, hiprt.kernels, hiprt.allocator\n"
        "assert not any(name.startswith('rocm') for name in sys.modules)\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert 'amdhip64' not in maps and 'libcuda' not in maps\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_installation_has_every_package_and_every_source_of_kernels(root):
    """A folder that pyproject.toml does not name is missing where the package is installed, and here it is not."""
    text = (root / "pyproject.toml").read_text()
    listed = set(re.findall(r'"([\w.]+)"', text[text.index("\npackages = [") : text.index("\ninclude-package-data")]))
    folders = [path.parent.relative_to(root) for name in PACKAGES for path in (root / name).rglob("__init__.py")]
    assert {".".join(("hiprt", *folder.parts)) for folder in folders} <= listed
    families = {path.parent.name for path in (root / "kernels" / "ops").rglob("*.metal")}
    have_sources = r'^"hiprt\.kernels\.ops\.(\w+)" = \["\*\.metal", "\*\.hip", "\*\.h"\]$'
    assert families <= set(re.findall(have_sources, text, re.MULTILINE))
