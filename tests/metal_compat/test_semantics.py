"""Statements about MLX's metal_kernel with the test that holds each of them, and the text that it generates."""

import ast
from pathlib import Path

import numpy as np
import pytest

from hiprt.kernels.lang.metal_body import Body, Form, Operand
from hiprt.metal_compat import metal_kernel

# A statement begins with its section of the conformance notes. Beside it stands the test: file, function, case.
TABLE = {
    "1 no output is refused": "call test_construction_refuses no output",
    "1 compile options are a dict": "call test_construction_refuses options as list",
    "1 an unknown compile option is named": "call test_construction_refuses unknown option",
    "1 the math mode is one of three": "call test_construction_refuses unknown mode",
    "1 a mode that is no str is an error of value": "call test_construction_refuses mode of a wrong type",
    "1 arguments of a wrong type": "call test_construction_refuses names as str",
    "1 unknown arguments": "call test_construction_refuses unknown argument",
    "1 no inputs, tuples, odd names are taken": "call test_construction_is_lenient",
    "1 safe is the default; __FAST_MATH__ in fast mode only; infinities and NaN": "body test_math_modes",
    "1 relaxed mode may fuse, safe mode never does": "body test_products_and_sums_are_fused_in_relaxed_mode",
    "2 keywords only": "call test_missing_and_positional_arguments",
    "2 a list in the order of the names": "call test_result_is_a_list_in_the_order_of_the_names",
    "2 the order of checks": "call test_order_of_checks",
    "2 a grid is three ints": "call test_call_refuses grid of two",
    "2 no floats in a grid": "call test_call_refuses grid with a float",
    "2 grids below 2^31": "call test_call_refuses grid too large",
    "2 dtypes are objects": "call test_call_refuses dtype as str",
    "2 the number of inputs, with a trailing newline": "call test_call_refuses two inputs",
    "2 the number of shapes": "call test_call_refuses no shapes",
    "2 the number of dtypes": "call test_call_refuses two dtypes",
    "2 template values are dtypes, ints, bools": "call test_call_refuses template float",
    "2 no numpy ints in a template": "call test_call_refuses template numpy int",
    "2 no ints beyond 32 bits in a template": "call test_call_refuses template int of 33 bits",
    "2 no lists as inputs": "call test_call_refuses list as input",
    "2 no host streams": "call test_call_refuses host stream",
    "2 no float64 outputs": "call test_call_refuses float64 output",
    "2 no float64 inputs, said after printing": "call test_float64_array_is_refused_after_the_text_was_printed",
    "2 the limit of threads counts before clipping": "grid test_threadgroups_are_clipped_to_the_grid",
    "2 what does not compile, on the user's line": "call test_compile_errors_name_the_users_line",
    "2 types of Python's and numpy's numbers": "call test_host_values_get_mlx_types",
    "2 scalar inputs have their value": "call test_scalar_inputs_have_their_value",
    "2 init_value is converted as in C++": "body test_first_values",
    "2 streams and devices": "call test_stream_and_device_are_taken",
    "2 verbose prints under the user's name": "call test_verbose_prints_the_text_under_the_users_name",
    "2 outputs are fresh": "call test_outputs_are_fresh",
    "0 the older form: dictionaries in, dictionary out": "call test_older_form_with_dictionaries",
    "0 the older form: by name, or by the names given": "call test_dictionaries_are_ordered_by_name",
    "0 shapes, grid, threadgroup, template as functions": "call test_functions_of_the_shapes",
    "0 other shapes never get stale results": "call test_a_step_with_other_shapes_gets_their_results",
    "2.1 names: operands, templates, twice underlined": "mlx_text test_name_and_text",
    "2.1 one name, other source": "call test_kernels_of_one_name_and_other_source_do_not_share_code",
    "2.1 one name, int 1 and True": "call test_one_kernel_with_two_dtypes_and_template_values",
    "2.2 the text is MLX's, byte for byte": "mlx_text test_name_and_text",
    "2.2 MLX's defect with several outputs": "mlx_text is_broken_by_mlx",
    "2.2 all attributes": "mlx_text test_the_cases_cover_the_signature",
    "2.2 attributes are parameters, which may be changed": "grid test_attributes_can_be_changed_like_parameters",
    "2.2 more than 31 buffers are warned of": "call test_more_buffers_than_metal_has_are_warned_of",
    "2.3 exactly the grid's threads run": "grid test_exactly_the_threads_of_the_grid_run",
    "2.3 edge threadgroups are smaller, attributes exact": "grid test_every_attribute_of_every_thread",
    "2.3 barriers of a smaller threadgroup": "grid test_barriers_of_a_smaller_threadgroup_wait_for_its_threads_only",
    "2.3 early exits": "grid test_threads_that_have_left_are_not_awaited",
    "2.3 a zero in the grid": "grid test_a_grid_with_a_zero_runs_nothing",
    "2.3 a negative grid": "call test_call_refuses negative grid",
    "2.3 simdgroups of 32 lanes, the last one partial": "lanes test_reductions",
    "2.4 copies of what has gaps, offsets without": "body test_layouts_of_inputs",
    "2.4 shapes and strides of the copy, or of the view": "body test_shape_strides_and_ndim",
    "2.4 strides of zero": "body test_a_stride_of_zero",
    "2.5 zero sizes": "body test_zero_sizes",
    "2.6 elem_to_loc and its kin": "body test_places_of_elements",
    "2.6 LoopedElemToLoc": "body test_a_walk_through_an_array",
    "2.6 ceildiv, Limits and other small names": "names test_a_name_has_its_value",
    "2.6 complex numbers": "body test_complex_numbers",
    "2.6 conversions of bfloat": "body test_conversions_of_bfloat",
    "2.6 functions of 16-bit numbers round once": "body test_functions_of_16_bit_numbers_round_once",
    "2.6 shuffles": "lanes test_shuffles",
    "2.6 shuffles of 64-bit numbers, bool, complex": "lanes test_shuffles_of_larger_values",
    "2.6 prefix sums and products": "lanes test_scans",
    "2.6 votes of the active lanes": "lanes test_votes",
    "2.6 diverged lanes": "divergence test_lanes_meet_as_on_a_gpu",
    "2.6 threadgroup variables": "body test_threadgroup_variables_of_all_kinds",
    "2.6 atomic outputs": "body test_atomic_outputs",
    "2.6 atomics of a threadgroup": "body test_atomics_of_a_threadgroup",
    "2.6 float atomics": "body test_float_atomics",
    "2.6 simdgroup_matrix": "simdgroup_matrix test_products",
    "2.6 numbers without suffix are float": "body test_numbers_without_suffix_are_float",
    "2.6 headers": "body test_headers_with_constants_structures_and_templates",
}


def test_there_are_sixty_statements():
    assert len(TABLE) >= 60


@pytest.mark.parametrize("statement", TABLE)
def test_a_statement_has_its_test(statement):
    file, name, *case = TABLE[statement].split(" ", 2)
    text = (Path(__file__).parent / f"test_{file}.py").read_text()
    functions = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    assert any(function.startswith(name) for function in functions)
    assert all(f'"{word}": (' in text for word in case)


F32 = np.dtype(np.float32)
MANY, FEW, SCALAR = Operand(F32, 2, False), Operand(F32, 1, True), Operand(F32, 0, True)


def text(source, *operands, outputs=(F32,), template=(), **how):
    """Return the Metal text of a body with inputs a, b and outputs x, y."""
    body = Body("k", tuple("ab"[: len(operands)]), tuple("xy"[: len(outputs)]), source, **how)
    return body.metal(Form(operands, outputs, template))


SIGNATURES = {
    "eight elements are in device memory": (text("", MANY), "const device float* a [[buffer(0)]]", True),
    "seven in constant memory": (text("", FEW), "const constant float* a [[buffer(0)]]", True),
    "a number is a reference": (text("", SCALAR), "const constant float& a [[buffer(0)]]", True),
    "shapes where the body names them": (text("a_shape", MANY), "const constant int* a_shape [[buffer(1)]]", True),
    "also in a comment": (text("// a_ndim", MANY), "const constant int& a_ndim [[buffer(1)]]", True),
    "also as a part of a word": (text("la_strides", MANY), "int64_t* a_strides [[buffer(1)]]", True),
    "not where the header does": (
        text("", MANY, header="// a_shape thread_position_in_grid\n"),
        "[[buffer(1)]],",
        False,
    ),
    "a number has no shape": (text("a_shape", SCALAR), "a_shape [[", False),
    "outputs are never constant": (text("", FEW, outputs=(F32, F32)), "device float* y [[buffer(2)]]", True),
    "atomic outputs": (text("", FEW, atomic=True), "device atomic<float>* x [[buffer(1)]]", True),
    "an attribute within another's name": (
        text("dispatch_threads_per_threadgroup", FEW),
        "uint3 threads_per_threadgroup [[threads_per_threadgroup]]",
        True,
    ),
    "a template": (
        text("", FEW, template=(("T", F32), ("N", -3), ("B", True))),
        "template <typename T, int N, bool B>\n",
        True,
    ),
    "its instantiation": (text("", FEW, template=(("N", -3), ("B", True))), "_k___3_1_floatc_float<-3, 1>;\n", True),
    "int and bool of one name": (
        text("", FEW, template=(("N", 1),))[20:],
        text("", FEW, template=(("N", True),))[20:],
        False,
    ),
    "several outputs with shapes and no attribute": (
        text("a_shape", MANY, outputs=(F32, F32)),
        "device float* x [[buffer(2)]],\n  device float* y [[buffer(3)]]) {",
        True,
    ),
}


@pytest.mark.parametrize("statement", SIGNATURES)
def test_signatures(statement):
    made, part, is_there = SIGNATURES[statement]
    assert (part in made) is is_there, made


@pytest.mark.parametrize(
    "sizes",
    [[4, 1, 1], (np.int64(4), np.uint8(1), 1), (4, True, 1), np.array([4, 1, 1])],
    ids=["list", "numpy", "bool", "array"],
)
def test_whatever_counts_is_taken_as_a_size(sizes):
    kernel = metal_kernel("k", [], ["out"], "out[thread_position_in_grid.x] = 1;")
    made = kernel(inputs=[], output_shapes=[[np.int32(4)]], output_dtypes=[F32], grid=sizes, threadgroup=sizes)
    assert made[0].numpy().tolist() == [1] * 4


def test_an_output_of_no_axes(run):
    assert run("out[0] = 3;", shape=(), grid=(1, 1, 1)).item() == 3
