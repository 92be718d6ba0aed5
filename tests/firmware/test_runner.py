# SPDX-License-Identifier: BSD-3-Clause
"""A .pte in an image of its own: the same bits as the host, figures, and refusals."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmware.board import BOARDS, BoardError, Image, build_image, build_runner, run, section_sizes
from firmware.model_info import kernel_list, kernels_inc, read_model
from firmware.tools import find_tool, run_tool
from fused_quant import native
from fused_quant import schema_generated as schema
from fused_quant.lowered import LoweredProgram, LoweredTensor, Storage, StoredQParams
from fused_quant.memory_plan import plan_memory
from fused_quant.payload import serialize
from tests.firmware.conftest import require
from tests.firmware.pte_files import BACKEND_ID, Plan, call, make_pte, pte_of, tensor, value_of
from tests.python.payload_samples import SAMPLES, Chain, dot_params

pytestmark = pytest.mark.firmware

Array = npt.NDArray[Any]
HEAP_AND_CXX = re.compile(
    r"malloc|calloc|realloc|^_?free(_r)?$|sbrk|^_Zn[wa]|^_Zd[la]|__cxa_|_GLOBAL__sub_I|_impure"
)


def build(board: str, folder: Path, pte: bytes, name: str = "model.pte") -> Image:
    path = folder / name
    path.write_bytes(pte)
    return build_runner(board, path)


def random_inputs(program: LoweredProgram, seed: int) -> list[Array]:
    """One array per delegate input, in stored order."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for index in program.inputs:
        stored = program.tensors[index]
        if stored.dtype == "f32":
            arrays.append(rng.normal(0, 9, stored.shape).astype(np.float32))
        else:
            arrays.append(rng.integers(-128, 128, stored.shape, dtype=np.int8))
    return arrays


def logical(stored: Array, of: LoweredTensor) -> Array:
    """A stored array as the program's user sees it."""
    order = of.dim_order or tuple(range(stored.ndim))
    return stored.transpose(np.argsort(order))


def check_against_host(
    board: str, folder: Path, program: LoweredProgram, count: int = 3
) -> tuple[Image, Any]:
    """Run the same program on board and host; returns the image and the board's figures."""
    image = build(board, folder, pte_of(program))
    stored = [random_inputs(program, seed) for seed in range(count)]
    inputs = [
        [logical(a, program.tensors[i]) for a, i in zip(arrays, program.inputs, strict=True)]
        for arrays in stored
    ]
    result = run(image, inputs)
    payload = serialize(program)
    for arrays, outputs in zip(stored, result.outputs, strict=True):
        host = native.run_payload(payload, arrays)
        for index, expected, got in zip(program.outputs, host, outputs, strict=True):
            seen = logical(expected, program.tensors[index])
            assert got.dtype == seen.dtype
            assert got.shape == seen.shape
            assert got.tobytes() == np.ascontiguousarray(seen).tobytes()
    return image, result


def test_channels_last_program(board: str, tmp_path: Path) -> None:
    image, result = check_against_host(board, tmp_path, SAMPLES["conv2d"]())
    assert image.info is not None
    assert image.info.inputs[0].shape == (1, 4, 7, 6)
    assert image.info.inputs[0].dim_order == (0, 2, 3, 1)
    assert result.kernels == ("conv2d_s8_scalar", "copy_scalar")


def test_float_program(board: str, tmp_path: Path) -> None:
    check_against_host(board, tmp_path, SAMPLES["cast"](), count=20)


def flatten_linear() -> LoweredProgram:
    """Float image -> quantize -> linear(100, 4) -> dequantize."""
    chain = Chain((2, 100), "f32")
    cast = {"scale": 0.25, "inverseScale": 4.0, "zeroPoint": 3}
    chain.op("quantize", schema.CastParamsT(clampMin=-128, clampMax=127, **cast), (2, 100))
    weight, bias = chain.weight((4, 100), 4, 0)
    chain.op("linear", dot_params(4), (2, 4), weight, bias)
    chain.op("dequantize", schema.CastParamsT(**cast), (2, 4), last=True, dtype="f32")
    plan_memory(chain.program)
    return chain.program


def tiny_net() -> LoweredProgram:
    """Conv 3x3 of 8x8 pixels, max pool, linear: what 16 KB of RAM hold with ease."""
    chain = Chain((1, 8, 8, 1))
    weight, bias = chain.weight((6, 3, 3, 1), 6, 0)
    params = dot_params(6)
    params.kernelH = params.kernelW = 3
    chain.op("conv2d", params, (1, 6, 6, 6), weight, bias)
    weight, bias = chain.weight((4, 216), 4, 0)
    chain.op("linear", dot_params(4), (1, 4), weight, bias, last=True)
    plan_memory(chain.program)
    return chain.program


@pytest.mark.parametrize("name", [name for name, one in BOARDS.items() if one.is_bare_metal])
def test_tiny_net_on_every_bare_board(name: str, tmp_path: Path) -> None:
    """The runner on all of them; the smallest has 16 KB of RAM and 256 KB of flash."""
    image, result = check_against_host(require(name), tmp_path, tiny_net())
    assert image.flash_bytes < 262_144
    assert image.ram_bytes < 8192
    # 3,780 multiply-accumulates take at least one instruction each.
    assert 3_780 < result.instructions < 1_000_000
    assert 0 < result.stack_bytes <= 1024


@pytest.mark.parametrize("make", [flatten_linear, SAMPLES["add"]], ids=["linear", "add"])
def test_stack_stays_within_4_kib(board: str, tmp_path: Path, make: Any) -> None:
    image, result = check_against_host(board, tmp_path, make())
    assert image.sections[".fq_stack"] == 4096
    # The bounds docs publish: loading a program, and one inference.
    assert 0 < result.init_stack_bytes <= 2560
    assert 0 < result.stack_bytes <= 1024


def test_kernels_of_an_image() -> None:
    """Those of the program's operators and dtypes, out of a list that no line falls through."""
    everything = kernels_inc()
    lines = [line for line in everything.splitlines() if line.startswith("FQ_KERNEL")]
    operators = {"conv2d s8", "conv2d s32", "requantize s16", "requantize u8"}
    info = dataclasses.replace(read_model(pte_of(tiny_net())), operators=tuple(operators))
    chosen = kernel_list(info, everything).splitlines()
    wanted = ("(conv2d, s8,", "(requantize, s16,", "(requantize, u8,")
    assert [line for line in chosen if line.startswith("FQ_KERNEL")] == [
        line for line in lines if any(start in line for start in wanted)
    ]
    opcodes = [name for name in vars(schema.OpCode) if not name.startswith("_")]
    dtypes = [name for name in vars(schema.DType) if not name.startswith("_")]
    every = tuple(f"{opcode} {dtype}" for opcode in opcodes for dtype in dtypes)
    kept = kernel_list(dataclasses.replace(info, operators=every), everything).splitlines()
    assert [line for line in kept if line.startswith("FQ_KERNEL")] == lines


def test_figures(board: str, tmp_path: Path) -> None:
    program = flatten_linear()
    pte = pte_of(program)
    image, result = check_against_host(board, tmp_path, program)
    assert image.model_bytes == -(-len(pte) // 16) * 16 or image.model_bytes == len(pte)
    assert image.flash_bytes == image.code_bytes + image.model_bytes
    assert 0 < image.code_bytes < 60_000
    symbols = run_tool([find_tool(f"{BOARDS[board].tools}nm"), "--demangle", image.elf])
    names = set(re.findall(r"fused_quant::(\w+_s(?:8|16)_\w+)\(fused_quant::Step", symbols))
    assert names == {"quantize_s8_scalar", "linear_s8_scalar", "dequantize_s8_scalar"}
    assert image.arena_bytes == max(program.arena_bytes, 16)
    assert image.persistent_bytes == program.persistent_bytes
    parts = (
        *(image.arena_bytes, image.persistent_bytes, image.io_bytes),
        *(image.stack_bytes, image.other_ram_bytes),
    )
    assert image.ram_bytes == sum(parts)
    assert image.io_bytes == 2 * 100 * 4 + 2 * 4 * 4
    assert 0 < result.persistent_bytes <= program.persistent_bytes
    assert 0 <= result.arena_bytes <= image.arena_bytes
    # 800 multiply-accumulates take at least one instruction each.
    assert 800 < result.instructions_min <= result.instructions_max < 1_000_000
    assert result.instructions == result.instructions_max


def test_runs_repeat_to_the_instruction(board: str, tmp_path: Path) -> None:
    program = flatten_linear()
    image = build(board, tmp_path, pte_of(program))
    inputs = [random_inputs(program, seed) for seed in (1, 2, 1)]
    seen: list[int] = []
    first = run(image, inputs, on_progress=seen.append)
    second = run(image, inputs)
    assert first.log == second.log
    assert seen == [1, 2, 3]
    assert first.outputs[0][0].tobytes() == first.outputs[2][0].tobytes()
    assert first.outputs[0][0].tobytes() != first.outputs[1][0].tobytes()
    alone = run(image, inputs[:1])
    assert alone.instructions_min == alone.instructions_max <= first.instructions_max


def two_operand_add() -> LoweredProgram:
    """The sum of two int8 inputs of one shape, each with its own quantization."""
    program = LoweredProgram("generic")
    names = (("a", Storage.INPUT, 0), ("b", Storage.INPUT, 1), ("sum", Storage.OUTPUT, 0))
    for name, storage, location in names:
        qparams = StoredQParams((0.25,), (0,), -128, 127)
        program.add_tensor(
            LoweredTensor(name, "s8", (2, 9), storage, qparams=qparams, location=location)
        )
    program.inputs, program.outputs = [0, 1], [2]
    params = schema.ElementwiseParamsT(
        inputZeroPoint=[-7, 12],
        multiplier=[2**30, 3 * 2**29],
        shift=[12, 12],
        negate=[False, True],
        outputMultiplier=2**30 + 77,
        outputShift=49,
        outputZeroPoint=40,
        clampMin=-128,
        clampMax=127,
    )
    program.add_op("add", (0, 1), (2,), params)
    plan_memory(program)
    return program


@pytest.mark.parametrize(
    ("inputs", "outputs", "arguments", "operands"),
    [
        ((0, 1), (2,), (0, 1, 2), (0, 1)),
        ((1, 0), (2,), (0, 1, 2), (1, 0)),
        ((0,), (2,), (0, 0, 2), (0, 0)),
        ((0, 1), (2, 2), (1, 0, 2), (1, 0)),
        ((0, 3, 1), (2,), (0, 1, 2), (0, 2)),
    ],
    ids=["plain", "permuted", "same input twice", "output twice", "unused input"],
)
def test_arguments(
    board: str,
    tmp_path: Path,
    inputs: Sequence[int],
    outputs: Sequence[int],
    arguments: Sequence[int],
    operands: tuple[int, int],
) -> None:
    """`operands` are the program inputs that the addition gets as a and b."""
    program = two_operand_add()
    values = [value_of(program.tensors[i]) for i in range(3)] + [tensor((3,), "f32")]
    plan = Plan(values, list(inputs), list(outputs), [call(*arguments)])
    payload = serialize(program)
    image = build(board, tmp_path, make_pte([plan], [payload]))
    rng = np.random.default_rng(5)
    arrays: list[Array] = [
        np.zeros(3, np.float32) if index == 3 else rng.integers(-128, 128, (2, 9), np.int8)
        for index in inputs
    ]
    result = run(image, [arrays, arrays])
    (expected,) = native.run_payload(payload, [arrays[i] for i in operands])
    for got in result.outputs:
        assert len(got) == len(outputs)
        assert all(array.tobytes() == expected.tobytes() for array in got)


def test_inline_payload(board: str, tmp_path: Path) -> None:
    program = SAMPLES["linear"]()
    image = build(board, tmp_path, pte_of(program, segments=False))
    inputs = random_inputs(program, 0)
    (expected,) = native.run_payload(serialize(program), inputs)
    assert run(image, [inputs]).outputs[0][0].tobytes() == expected.tobytes()


def test_inputs_that_do_not_fit_are_refused(board: str, tmp_path: Path) -> None:
    program = SAMPLES["linear"]()
    image = build(board, tmp_path, pte_of(program))
    right = random_inputs(program, 0)
    with pytest.raises(ValueError, match=r"inference 1: got 2 inputs, the program takes 1"):
        run(image, [right, right * 2])
    with pytest.raises(ValueError, match=r"input 0: got float32 \(3, 7\), the program takes int8"):
        run(image, [[right[0].astype(np.float32)]])
    with pytest.raises(ValueError, match=r"got int8 \(7, 3\)"):
        run(image, [[right[0].T]])
    with pytest.raises(ValueError, match="no inputs"):
        run(image, [])


def test_not_fully_delegated_is_refused_before_building(board: str, tmp_path: Path) -> None:
    from executorch.exir import schema as et

    values = [tensor((1,)), tensor((1,))]
    kernel = et.Instruction(et.KernelCall(0, [0, 1]))
    undelegated = Plan(values, [0], [1], [kernel, call(0, 1)], operators=("aten::sin",))
    with pytest.raises(BoardError, match=r"not fully delegated.*aten::sin.out"):
        build(board, tmp_path, make_pte([undelegated], [b"x"]))
    other = Plan(values, [0], [1], [call(0, 1)], backend_ids=("XnnpackBackend",))
    with pytest.raises(BoardError, match=rf"'XnnpackBackend', expected '{BACKEND_ID}'"):
        build(board, tmp_path, make_pte([other], [b"x"]))
    named = Plan(values, [0], [1], [call(0, 1)], name="encode")
    with pytest.raises(BoardError, match=r"no method 'forward' .*\['encode'\]"):
        build(board, tmp_path, make_pte([named], [b"x"]))


def test_bad_files_are_refused_before_building(board: str, tmp_path: Path) -> None:
    program = SAMPLES["linear"]()
    pte = pte_of(program)
    with pytest.raises(BoardError, match="identifier b'ET13', expected b'ET12'"):
        build(board, tmp_path, pte[:4] + b"ET13" + pte[8:])
    with pytest.raises(BoardError, match="malformed"):
        build(board, tmp_path, pte[: len(pte) // 3])
    linear = next(op for op in program.ops if op.opcode == "linear")
    linear.params.shift = [63] * len(linear.params.shift)
    with pytest.raises(BoardError, match=r"the runtime refuses the payload: .*shift"):
        build(board, tmp_path, pte_of(program))


@pytest.mark.parametrize(
    "value",
    [
        tensor((1, 4, 7, 6)),
        tensor((1, 7, 6, 4)),
        tensor((1, 4, 6, 7), dim_order=(0, 2, 3, 1)),
        tensor((1, 4, 7, 6), dim_order=(0, 3, 2, 1)),
        tensor((1, 4, 7, 6), "u8", (0, 2, 3, 1)),
        tensor((4, 7, 6), dim_order=(1, 2, 0)),
    ],
    ids=["contiguous", "nhwc shape", "swapped sizes", "swapped order", "dtype", "rank"],
)
def test_program_tensor_that_differs_from_the_payload(
    board: str, tmp_path: Path, value: Any
) -> None:
    program = SAMPLES["conv2d"]()
    output = value_of(program.tensors[program.outputs[0]])
    plan = Plan([value, output], [0], [1], [call(0, 1)])
    image = build(board, tmp_path, make_pte([plan], [serialize(program)]))
    assert image.info is not None
    info = image.info.inputs[0]
    with pytest.raises(BoardError, match="dim order of delegate input"):
        run(image, [[np.zeros(info.shape, info.dtype)]])


def test_place_of_a_dimension_of_size_one_does_not_matter(board: str, tmp_path: Path) -> None:
    """One channel: (0, 2, 1, 3) and (0, 2, 3, 1) are the same bytes, and ExecuTorch uses both."""
    chain = Chain((1, 5, 6, 1))
    program = chain.copy()
    payload = serialize(program)
    data = np.arange(30, dtype=np.int8).reshape(1, 1, 5, 6)
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (2, 3, 0, 1)):
        value = tensor((1, 1, 5, 6), dim_order=order)
        image = build(
            board, tmp_path, make_pte([Plan([value, value], [0], [1], [call(0, 1)])], [payload])
        )
        np.testing.assert_array_equal(run(image, [[data]]).outputs[0][0], data)


def test_cmake_alone(tmp_path: Path) -> None:
    """The commands of docs/firmware.md, built for size."""
    board = require("mps2-an386")
    program = SAMPLES["linear"]()
    pte = tmp_path / "model.pte"
    pte.write_bytes(pte_of(program))
    folder = tmp_path / "build"
    repository = Path(__file__).resolve().parents[2]
    options = [f"-DFQ_MODEL={pte}", "-DCMAKE_BUILD_TYPE=MinSizeRel"]
    options += [f"-DPython3_EXECUTABLE={sys.executable}"]
    options += [f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}"]
    cmake = find_tool("cmake")
    run_tool([cmake, "-S", repository, "--preset", board, "-B", folder, *options])
    run_tool([cmake, "--build", folder, "--target", "fq_runner"])
    fast = build(board, tmp_path, pte_of(program))
    elf = folder / "firmware" / "fq_runner.elf"
    small = Image(board, elf, section_sizes(board, elf), fast.info)
    assert small.code_bytes < fast.code_bytes
    inputs = [random_inputs(program, 0)]
    assert run(small, inputs).outputs[0][0].tobytes() == run(fast, inputs).outputs[0][0].tobytes()


def test_no_heap_and_no_static_constructors(board: str, tmp_path: Path) -> None:
    images = [build_image(board, name) for name in ("fq_tester", "fq_fault")]
    images.append(build(board, tmp_path, pte_of(flatten_linear())))
    for image in images:
        listing = run_tool([find_tool("arm-none-eabi-nm"), image.elf])
        names = [line.split()[-1] for line in listing.splitlines()]
        assert "main" in names
        assert [name for name in names if HEAP_AND_CXX.search(name)] == []
        assert image.sections.get(".init_array", 0) == 0
        assert run_tool([find_tool("arm-none-eabi-nm"), "--undefined-only", image.elf]) == ""


def test_program_is_aligned_in_flash(board: str, tmp_path: Path) -> None:
    image = build(board, tmp_path, pte_of(flatten_linear()))
    listing = run_tool([find_tool("arm-none-eabi-nm"), image.elf])
    addresses = {line.split()[2]: int(line.split()[0], 16) for line in listing.splitlines()}
    assert addresses["fq_model_start"] % 16 == 0
    assert addresses["fq_model_start"] < 0x400000  # flash
