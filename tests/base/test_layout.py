"""The source tree: who may import whom, file sizes, names."""

import ast
import os
import shutil
import subprocess
import sys

PACKAGES = ("graphs", "allocator", "kernels", "metal_compat", "bench")
MAY_IMPORT = {
    "base": set(),
    "allocator": set(),
    "kernels": {"allocator"},
    "graphs": {"allocator", "kernels"},
    "metal_compat": {"kernels", "graphs", "allocator"},  # the Apple runner encodes recordings
    "bench": {"allocator", "kernels", "graphs", "metal_compat"},
}
LAZY = {"hiprt/__main__.py", "hiprt/doctor.py"}  # the command line opens the upper layers inside its functions


def sources(root):
    """Yield (layer, file) of every Python source."""
    for file in sorted((root / "hiprt").glob("*.py")) + sorted((root / "hiprt" / "native").glob("*.py")):
        yield "base", file
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            yield package, file


def imported(tree, top_level_only):
    """Names of the modules a file imports."""
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_layers(root):
    """Base imports nothing of ours above it; each package only what ARCHITECTURE section 3 allows."""
    for layer, file in sources(root):
        lazy = str(file.relative_to(root)) in LAZY
        for name in imported(ast.parse(file.read_text()), top_level_only=lazy):
            parts = name.split(".")
            if parts[0] == "hiprt" and len(parts) > 1 and parts[1] in PACKAGES and parts[1] != layer:
                assert parts[1] in MAY_IMPORT[layer], f"{file.relative_to(root)} imports {name}"
            assert parts[0] not in PACKAGES, f"{file.relative_to(root)} imports {name} past the package"


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
    """hiprt/<package> is a link to the top-level folder."""
    for package in PACKAGES:
        assert os.path.samefile(root / "hiprt" / package, root / package)


def test_files_hold_one_noun(root):
    """Python files stay under 400 lines, C and C++ under 600."""
    for _, file in sources(root):
        assert len(file.read_text().splitlines()) <= 400, file
    for pattern in ("hiprt/**/*.[ch]", "hiprt/**/*.cpp", "graphs/**/*.[ch]"):
        for file in root.glob(pattern):
            assert len(file.read_text().splitlines()) <= 600, file


def test_import_opens_no_gpu_library():
    """`import hiprt` and its packages load neither a HIP library nor hip-python's bindings."""
    code = (
        "import sys, hiprt, hiprt.graphs, hiprt.kernels, hiprt.allocator\n"
        "assert not any(name.startswith('rocm') for name in sys.modules)\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert 'amdhip64' not in maps and 'libcuda' not in maps\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
