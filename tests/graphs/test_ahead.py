"""Code compiled ahead: hiprt compile makes a folder of an exported program's code, with which nothing is compiled."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import hiprt
from hiprt import __main__, code_folder, compiler, kernels
from hiprt.graphs.export.ahead import sources_for
from hiprt.graphs.trace.rehearsal import rehearse
from hiprt.metal_compat import metal_kernel

SQUARE = metal_kernel("ahead_square", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = x[i] * x[i];")
RUN = """
import json, sys
import numpy as np
import hiprt
from hiprt import compiler

def refuse(*given):
    raise AssertionError(f"{given[1]} is compiled")

compiler.build = refuse
imported = hiprt.import_function(sys.argv[1])
x = hiprt.array(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
print(json.dumps([imported(x)[0].numpy().tolist() for _ in range(3)]))
"""


def function(x):
    y = SQUARE(inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(24, 1, 1), threadgroup=(8, 1, 1))[0]
    return kernels.matmul(kernels.softmax(kernels.add(x, y)), hiprt.full((6, 3), 0.5))


@pytest.fixture
def exported(tmp_path):
    hiprt.export_function(tmp_path / "f.hiprt", function, hiprt.zeros((4, 6)))
    return tmp_path / "f.hiprt"


def test_a_process_with_the_folder_compiles_nothing(exported, tmp_path, root):
    folder = tmp_path / "code"
    command = [sys.executable, "-m", "hiprt", "compile", str(exported), "--out", str(folder)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert f"HIPRT_CODE_DIR={folder}" in done.stdout
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    expected = function(hiprt.array(x)).numpy().tolist()
    environment = os.environ | {"HIPRT_CACHE_DIR": str(tmp_path / "cache")}

    def child(**more):
        command = [sys.executable, "-c", RUN, str(exported)]
        return subprocess.run(command, env=environment | more, cwd=root, capture_output=True, text=True, check=False)

    assert "is compiled" in child().stderr
    done = child(HIPRT_CODE_DIR=str(folder))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [expected] * 3


def test_kernels_for_a_gpu_that_is_not_here(exported):
    """They are those of its waves and its branch of lanes, each once, custom kernels among them."""
    sources = sources_for(exported, "gfx1151")
    names = [source.name for source in sources]
    assert "ahead_square.hip" in names
    assert any("softmax" in name for name in names)
    assert any("matmul" in name for name in names)
    assert len(set(sources)) == len(sources)
    assert len({source.key for source in sources}) == len(sources)
    with pytest.raises(ValueError, match=r"target 'gfx1': programs are compiled ahead for this device and gfx900, "):
        sources_for(exported, "gfx1")


def test_code_for_a_gpu_that_is_not_here(exported, tmp_path, capsys):
    """It is found by what a process there would ask for, whatever the features of its architecture are called."""
    folder = tmp_path / "code"
    assert __main__.main(["compile", str(exported), "--target", "gfx1151", "--out", str(folder), "--json"]) == 0
    sources = sources_for(exported, "gfx1151")
    assert json.loads(capsys.readouterr().out)["targets"] == {"gfx1151": len(sources)}
    with hiprt.flags.override(code_dir=str(folder)):
        for source in sources:
            code, names = code_folder.find("gfx1151:xnack-", source)
            assert code.startswith(b"\x7fELF")
            assert names == {}
            assert code_folder.find("gfx1201", source) is None
    assert code_folder.find("gfx1151", sources[0]) is None


def test_the_program_of_a_launch_is_the_one_that_is_compiled(monkeypatch):
    """What a launch asks hiprtc for is what a rehearsal says that it needs."""
    asked, needed = [], []
    whole = compiler.compile_source

    def watch(source, name, *, options=(), expressions=()):
        asked.append(code_folder.Source(source, name, tuple(options), tuple(expressions)))
        return whole(source, name, options=options, expressions=expressions)

    monkeypatch.setattr("hiprt.loaded_modules.compile_source", watch)
    kernel = metal_kernel("ahead_watched", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = x[i] + 3;")
    x = hiprt.zeros((5, 7))
    form = {"output_shapes": [(5, 7)], "output_dtypes": [np.float32], "grid": (35, 1, 1), "threadgroup": (64, 1, 1)}
    compiled = hiprt.compile(lambda x: kernel(inputs=[x], **form)[0])
    compiled(x)
    primitive = compiled.programs[0].primitives[0]
    rehearse(primitive.op, primitive.arguments, [x], hiprt.current_device(), needed)
    assert [source(hiprt.current_device().provider) for source in needed] == asked


def test_what_cannot_be_compiled_ahead(tmp_path, capsys):
    assert __main__.main(["compile", str(tmp_path / "f.hiprt")]) == 1
    assert "--out DIR" in capsys.readouterr().err
    assert __main__.main(["compile", str(tmp_path / "f.hiprt"), "--out", str(tmp_path / "code")]) == 1
    assert "there is no such file; hiprt.export_function writes one" in capsys.readouterr().err
    assert not (tmp_path / "code").exists()
    with pytest.raises(FileNotFoundError, match="no folder of code objects"):
        code_folder.use(tmp_path / "missing")
