# SPDX-License-Identifier: BSD-3-Clause
"""The delegate inside ExecuTorch: what it runs, what it refuses and with which error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from executorch.runtime import Runtime

from fused_quant import payload
from fused_quant.runtime import load_runtime
from tests.packaging.programs import (
    NHWC,
    linear_payload,
    permute_payload,
    program_with_payload,
)

# executorch/runtime/core/error.h
INVALID_ARGUMENT = 0x12
INVALID_PROGRAM = 0x23
OPERATOR_MISSING = 0x14
NOT_SUPPORTED = 0x10
INVALID_COMPATIBILITY = 0x30

SHAPE = (1, 2, 3, 4)


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> None:
    load_runtime()


def _input(shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return (torch.arange(int(np.prod(shape))) * 7 % 256 - 128).reshape(shape).to(dtype)


def _output(shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return torch.zeros(tuple(reversed(shape)), dtype=dtype)


def _run(program: bytes, x: torch.Tensor) -> torch.Tensor:
    method = Runtime.get().load_program(program).load_method("forward")
    assert method is not None
    (output,) = method.execute([x])
    return torch.as_tensor(output).clone()


def _expect_error(code: int, program: bytes, x: torch.Tensor) -> None:
    with pytest.raises(RuntimeError, match=rf"0x:?0*{code:x}\b"):
        _run(program, x)


@pytest.mark.parametrize(("dtype", "torch_dtype"), [("s8", torch.int8), ("f32", torch.float32)])
def test_runs(dtype: str, torch_dtype: torch.dtype) -> None:
    x = _input(dtype=torch_dtype)
    program = program_with_payload(permute_payload(SHAPE, dtype), x, _output(dtype=torch_dtype))
    assert torch.equal(_run(program, x), x.permute(3, 2, 1, 0))


def test_refuses_an_operator_without_kernel() -> None:
    x = _input(dtype=torch.int64)
    program = program_with_payload(permute_payload(SHAPE, "s64"), x, _output(dtype=torch.int64))
    _expect_error(OPERATOR_MISSING, program, x)


def test_runs_channels_last_input() -> None:
    x = _input().to(memory_format=torch.channels_last)
    y = torch.zeros(2, 4, 3, 1, dtype=torch.int8)  # NHWC reversed
    program = program_with_payload(permute_payload(SHAPE, dim_order=NHWC), x, y)
    assert torch.equal(_run(program, x), x.permute(1, 3, 2, 0))


@pytest.mark.parametrize("shape", [(1, 1, 3, 4), (1, 5, 1, 1), (2, 1, 1, 3), (1, 1, 1, 1)])
def test_ambiguous_layouts_are_equal(shape: tuple[int, ...]) -> None:
    """With one channel, or one pixel, both orders describe the same bytes."""
    x = _input(shape)
    y = torch.zeros(tuple(reversed([shape[d] for d in NHWC])), dtype=torch.int8)
    program = program_with_payload(permute_payload(shape, dim_order=NHWC), x, y)
    assert torch.equal(_run(program, x), x.permute(1, 3, 2, 0))


def test_refuses_another_dim_order() -> None:
    x = _input().to(memory_format=torch.channels_last)
    program = program_with_payload(permute_payload(SHAPE), x, _output())
    _expect_error(INVALID_ARGUMENT, program, x)


def test_refuses_another_dim_order_of_the_output() -> None:
    y = _output().to(memory_format=torch.channels_last)
    program = program_with_payload(permute_payload(SHAPE), _input(), y)
    _expect_error(INVALID_ARGUMENT, program, _input())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_refuses_another_dtype(dtype: torch.dtype) -> None:
    x = _input(dtype=dtype)
    program = program_with_payload(permute_payload(SHAPE), x, _output())
    _expect_error(INVALID_ARGUMENT, program, x)


def test_refuses_another_dtype_of_the_output() -> None:
    program = program_with_payload(permute_payload(SHAPE), _input(), _output(dtype=torch.uint8))
    _expect_error(INVALID_ARGUMENT, program, _input())


@pytest.mark.parametrize("shape", [(1, 2, 3, 5), (1, 2, 4, 3), (2, 1, 3, 4), (2, 3, 4), (24,)])
def test_refuses_another_shape(shape: tuple[int, ...]) -> None:
    x = _input(shape)
    program = program_with_payload(permute_payload(SHAPE), x, _output())
    _expect_error(INVALID_ARGUMENT, program, x)


def test_refuses_another_shape_of_the_output() -> None:
    program = program_with_payload(permute_payload(SHAPE), _input(), _output((1, 3, 2, 4)))
    _expect_error(INVALID_ARGUMENT, program, _input())


def _edited(edit: dict[int, int]) -> bytes:
    data = bytearray(permute_payload(SHAPE))
    for offset, value in edit.items():
        data[offset] = value
    return program_with_payload(bytes(data), _input(), _output())


def test_refuses_another_identifier() -> None:
    _expect_error(INVALID_COMPATIBILITY, _edited({7: ord("9")}), _input())


def test_refuses_a_broken_root() -> None:
    _expect_error(INVALID_PROGRAM, _edited({2: 0xFF, 3: 0x7F}), _input())


@pytest.mark.parametrize("size", [0, 1, 8, 100, -1])
def test_refuses_a_truncated_payload(size: int) -> None:
    data = permute_payload(SHAPE)
    program = program_with_payload(data[:size] if size else b"\0", _input(), _output())
    with pytest.raises(RuntimeError, match=r"0x:?0*(23|30)\b"):
        _run(program, _input())


def test_forced_isa(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_with_payload(permute_payload(SHAPE), _input(), _output())
    monkeypatch.setenv("FUSED_QUANT_ISA", "scalar")
    assert torch.equal(_run(program, _input()), _input().permute(3, 2, 1, 0))
    monkeypatch.setenv("FUSED_QUANT_ISA", "no_such_isa")
    _expect_error(NOT_SUPPORTED, program, _input())


def test_constants_are_used_where_the_program_lies() -> None:
    """Two programs at once, and one loaded and dropped many times, give the same bits."""
    first = program_with_payload(
        linear_payload(9, 5), _input((1, 9)), torch.zeros(1, 5, dtype=torch.int8)
    )
    second = program_with_payload(
        linear_payload(4, 7), _input((1, 4)), torch.zeros(1, 7, dtype=torch.int8)
    )
    methods = [
        Runtime.get().load_program(program).load_method("forward") for program in (first, second)
    ]
    expected = [_linear_reference(9, 5), _linear_reference(4, 7)]
    for _ in range(50):
        assert torch.equal(_run(first, _input((1, 9))), expected[0])
        for method, features, want in zip(methods, (9, 4), expected, strict=True):
            assert method is not None
            (output,) = method.execute([_input((1, features))])
            assert torch.equal(torch.as_tensor(output), want)


def _linear_reference(in_features: int, out_features: int) -> torch.Tensor:
    weight = np.arange(out_features * in_features).reshape(out_features, in_features) % 251 - 125
    x = _input((1, in_features)).numpy().astype(object)
    acc = x @ weight.T.astype(object) + np.arange(out_features) * 100  # Python integers
    codes = [[min(127, max(-128, -3 + ((v * 2**30 + 2**39) >> 40))) for v in row] for row in acc]
    return torch.tensor(codes, dtype=torch.int8)


def test_payload_is_found_again() -> None:
    data = permute_payload(SHAPE)
    program = program_with_payload(data, _input(), _output())
    assert payload.extract_payloads(program) == [data]
