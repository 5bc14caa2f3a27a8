"""The roofline model: it counts what it says, keeps to its bounds, and is called a model wherever it is printed."""

import argparse
import json
from itertools import product

import numpy as np
import pytest

from hiprt.array import bfloat16
from hiprt.bench import roofline
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.roofline.decode import bytes_of, predict, products
from hiprt.bench.roofline.gpus import GPUS, H200, MEASURED
from hiprt.bench.roofline.machine_code import (
    Code,
    code_of,
    full_waits,
    loop_instructions,
    matrix_step,
    nested_instructions,
)
from hiprt.bench.roofline.prompt import prefill_seconds, prefill_steps
from hiprt.kernels.ops.quantized.formats import AFFINE_BITS
from hiprt.kernels.ops.quantized.quantized_tiles import SHARED_TILES, TILES, tile_rows

LOOP = """
.LBB0_1:
\tv_add_f32 v0, v1, v2
\ts_cbranch_vccz .LBB0_3
\tv_mul_f32 v0, v1, v2
.LBB0_2:
\tv_mul_f32 v0, v1, v2
\ts_cbranch_scc1 .LBB0_2
.LBB0_3:
\ts_add_u32 s0, s0, 1
\tv_add_f32 v0, v1, v2
\ts_branch .LBB0_1
\tv_add_f32 v0, v1, v2
"""


def test_the_largest_loop_is_counted():
    assert loop_instructions(LOOP) == 4
    with pytest.raises(ValueError, match="no loop"):
        loop_instructions("\tv_add_f32 v0, v1, v2\n\ts_cbranch_scc1 .LBB0_9\n.LBB0_9:\n")


def test_nested_loops_are_told_apart():
    """The inner loop is the one that has all dot instructions and the least else."""
    dotted = LOOP.replace("\tv_mul_f32 v0, v1, v2\n\ts_cbranch_scc1", "\tv_dot8_i32_iu4 v0, v1, v2\n\ts_cbranch_scc1")
    assert nested_instructions(dotted) == (1, 4, 5)


WAITS = """
.LBB0_1:
\ts_waitcnt vmcnt(0) lgkmcnt(0)
\tv_dot8_i32_iu4 v0, v1, v2
\ts_waitcnt vmcnt(0)
\tglobal_load_b128 v[0:3], v4, s[0:1]
\ts_waitcnt vmcnt(10)
\ts_wait_loadcnt_dscnt 0x102
\ts_wait_loadcnt_dscnt 0x2
\tglobal_load_b128 v[0:3], v4, s[0:1]
\ts_wait_loadcnt 0x0
\ts_waitcnt lgkmcnt(0)
\ts_cbranch_scc1 .LBB0_1
"""


def test_waits_for_all_loads_are_counted():
    """One for nothing that was loaded since is none, and so is one that leaves loads on their way."""
    assert full_waits(WAITS) == 3


MATRICES = """
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
\tv_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]
\tv_exp_f32_e32 v8, v9
; %bb.2:                                ;   in Loop: Header=BB0_1 Depth=1
\tv_add_f32_e32 v8, v9, v9
\ts_cbranch_scc1 .LBB0_1
.LBB0_3:
\tv_add_f32_e32 v8, v9, v9
.LBB0_4:                                ;   in Loop: Header=BB0_1 Depth=1
\tv_add_f32_e32 v8, v9, v9
\ts_branch .LBB0_1
"""


def test_a_step_is_all_of_its_loop():
    """Blocks elsewhere in the text as well; an exponential counts four times."""
    step = matrix_step(Code(MATRICES, 2, 0), "tiles")
    assert step == ("tiles", 1, 6, 2 * 16**3, 2)
    assert step.share(GPUS[-1]) == pytest.approx(4 / (4 + 6))
    with pytest.raises(ValueError, match="tiles has no matrix instruction"):
        matrix_step(Code(LOOP, 2, 0), "tiles")


@pytest.mark.wide(turn=2)
def test_prompts_are_modelled_by_matrix_instructions(capsys):
    parser = argparse.ArgumentParser()
    roofline.add_arguments(parser)
    assert roofline.run(parser.parse_args(["--prefill", "--model", "qwen3-4b", "--json"])) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["what"] == "a model, no measurement"
    assert [(row["arch"], row["matrix"] >= 16) for row in found["steps"][::2]] == [(gpu.arch, True) for gpu in GPUS]
    for gpu in GPUS:
        tiles, _ = prefill_steps(gpu, 128)
        assert tiles.share(gpu) >= 0.6
        assert tiles.waves > 1  # one alone waits for memory
        seconds, operations = prefill_seconds(gpu, "qwen3-4b")
        assert 0.35 * gpu.matrix < operations / seconds < gpu.matrix
    assert roofline.run(parser.parse_args(["--prefill", "--model", "qwen3-4b"])) == 0
    assert "a model, no measurement: a prompt of 2048 tokens" in capsys.readouterr().out
    assert roofline.run(parser.parse_args(["--prefill", "--prompt", "512", "--model", "qwen3-4b", "--json"])) == 0
    short = json.loads(capsys.readouterr().out)
    assert short["prompt"] == 512
    rates = [[row["model: tok/s"] for row in each["predictions"]] for each in (short, found)]
    assert rates[0][-1] < rates[1][-1]  # gfx942 has more SIMDs than most products of a short prompt have waves
    for gpu in GPUS:
        seconds, operations = prefill_seconds(gpu, "qwen3-4b", 512)
        assert operations / seconds > 0.35 * gpu.matrix


def share_of(gpu, dtype, bits, rows, kernel=TILES):
    code = code_of(kernel, kernel.values_of({"T": dtype, "BITS": bits, "ROWS": rows}), gpu.arch)
    assert code.spills == 0
    return matrix_step(code, "tiles").share(gpu)


def test_unpacking_leaves_the_slots_to_matrix_instructions():
    """In tiles of bfloat16, which is rounded on the way, and codes that cross words, where unpacking takes the most."""
    for gpu, rows in zip(GPUS[1:], (64, 128)):
        assert rows == tile_rows(bfloat16, 17, gpu.target, is_single=True) == tile_rows(bfloat16, 16, gpu.target)
        assert share_of(gpu, bfloat16, 5, rows) >= 0.6
    assert share_of(GPUS[2], bfloat16, 4, 128, SHARED_TILES) >= 0.6


@pytest.mark.wide
def test_matrix_instructions_take_most_of_every_tile(part):
    tiles = [(gpu, rows) for gpu in GPUS for rows in gpu.target.table.matrix_tile_rows]
    codes = [(bits, dtype) for bits in AFFINE_BITS for dtype in (bfloat16, np.dtype(np.float16))]
    for (gpu, rows), (bits, dtype) in part([*product(tiles, codes)]):
        assert share_of(gpu, dtype, bits, rows) >= 0.6, (gpu.arch, rows, bits, dtype)


@pytest.mark.wide(turn=2)
def test_the_kernels_are_shown_beside_the_one_of_every_gpu(capsys):
    parser = argparse.ArgumentParser()
    roofline.add_arguments(parser)
    assert roofline.run(parser.parse_args(["--kernels", "--json"])) == 0
    found = json.loads(capsys.readouterr().out)["kernels"]
    assert len(found) == 15
    assert all(row["per byte"] < row["plain per byte"] and row["spills"] == 0 for row in found)
    assert all(row["full waits"] <= 1 <= row["of needed"] for row in found)
    assert roofline.run(parser.parse_args(["--kernels", "--model", "qwen3-4b"])) == 0
    assert "qmv_dots" in capsys.readouterr().out


def test_the_weights_of_a_token_are_those_that_were_measured():
    """The 4B preset's decode reads 2,262,528,000 bytes of weights (bench/results/2026-11-22-h200-decode.json)."""
    nbytes = sum(bytes_of(p) * n for p, _, n in products(PRESETS["qwen3-4b"]))
    assert nbytes == pytest.approx(2262528000, rel=2e-3)


def test_no_bound_is_broken():
    """A token takes at least its bytes at the bandwidth, and its nodes."""
    for gpu in (*GPUS, H200):
        found = predict(gpu, "qwen3-4b")
        assert 0 < found.weights_share < 1
        assert found.weights_share + found.nodes_share <= 1.001
        assert (found.measured_tok_s is None) == (gpu is not H200)


def test_it_is_called_a_model(capsys):
    """In the table and in the JSON, with its assumptions; the measurement stands beside the H200."""
    parser = argparse.ArgumentParser()
    roofline.add_arguments(parser)
    assert roofline.run(parser.parse_args(["--model", "qwen3-4b"])) == 0
    text = capsys.readouterr().out
    assert text.startswith("a model, no measurement")
    assert "model: tok/s" in text
    assert "901" in text
    assert roofline.run(parser.parse_args(["--model", "qwen3-4b", "--json"])) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["what"] == "a model, no measurement"
    assert {each["arch"] for each in found["assumptions"]} == {"gfx1151", "gfx1201", "gfx942", "sm_90"}
    assert [each["measured_tok_s"] for each in found["predictions"]][-1] == MEASURED["qwen3-4b"]
