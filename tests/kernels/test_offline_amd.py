"""Every kernel compiles for AMD GPUs without one, and needs no more registers than there are."""

import importlib
import importlib.util
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hiprt.kernels.dialect import SOURCES

HALF = np.dtype(np.float16)
TEMPLATES = {
    "add": (HALF, 8),
    "advance": (),
    "argmax": (HALF,),
    "attention": (HALF, 128, 8),
    "kv_write": (HALF,),
    "quantized_embedding": (HALF, 64, 4),
    "quantized_matmul": (HALF, 64, 4),
    "rms_norm": (HALF, True, 8, 8),
    "rope": (HALF, False),
    "sample": (HALF,),
    "silu_mul": (HALF, 8),
}
FLAGS = """-x hip --offload-device-only -nogpuinc -nogpulib -fdeclspec -fno-math-errno -ffp-contract=off -O3 -S
-Wall -Wextra -Werror -Wno-unused-parameter -Wno-unused-variable -Wno-unused-local-typedef""".split()


def number(name, assembly):
    return int(re.search(rf"\.{name}: +(\d+)", assembly)[1])


def test_templates_cover_every_kernel():
    assert set(TEMPLATES) == {path.stem for path in SOURCES.glob("*.metal")}


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_compiles_without_spills(name, arch, tmp_path):
    kernel = importlib.import_module(f"hiprt.kernels.{name}").KERNEL
    source, assembly = tmp_path / "kernel.hip", tmp_path / "kernel.s"
    source.write_text(kernel.text("hip", TEMPLATES[name]))
    zig = Path(importlib.util.find_spec("ziglang").origin).parent / "zig"
    command = [zig, "clang", *FLAGS, f"--offload-arch={arch}", source, "-o", assembly]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = assembly.read_text()
    assert f".globl\t{kernel.symbol(TEMPLATES[name])}" in text
    spills = {key: number(key, text) for key in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size")}
    assert not any(spills.values()), spills
    assert number("vgpr_count", text) <= 128
    if name in ("quantized_matmul", "add", "silu_mul", "rms_norm"):
        assert re.search(r"global_load_(b128|dwordx4)", text)
