# SPDX-License-Identifier: BSD-3-Clause
"""Products of int16 activations: kernels against Python integers, and what preparation refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fused_quant import native, numerics_wide
from tests.support.builders import build
from tests.support.built import Array, Built

LINEAR: dict[str, Any] = {"rows": (2,), "in_c": 5, "out_c": 3, "dtype": "int16"}
CONV: dict[str, Any] = {"in_h": 3, "in_w": 4, "in_c": 2, "out_c": 3, "dtype": "int16"}
BMM: dict[str, Any] = {"op": "bmm", "shapes": ((2, 3, 4), (2, 4, 5)), "dtype": "int16"}


def _exact_codes(sums: list[list[int]], m: list[int], s: list[int], built: Built) -> Array:
    """R and C of accumulators [rows, channels] in Python integers."""
    low, high = built.params.clampMin, built.params.clampMax
    several = int(len(m) > 1)
    return np.array(
        [
            [
                min(
                    high,
                    max(low, (v * m[c * several] + (1 << (s[c * several] - 1))) >> s[c * several]),
                )
                for c, v in enumerate(row)
            ]
            for row in sums
        ],
        np.int16,
    )


def _products(rows: Array, columns: Array) -> list[list[int]]:
    """[rows, K] times [K, columns] in Python integers."""
    total: list[list[int]] = (rows.astype(object) @ columns.astype(object)).tolist()
    return total


def test_rounding_of_linear_equals_python_integers() -> None:
    """Multipliers of all 31 bits, biases up to the ends of 2^47."""
    for seed in range(150):
        in_c = (1, 7, 64, 600)[seed % 4]
        built = build("linear", {**LINEAR, "in_c": in_c}, seed)
        weight, bias = built.constants
        assert weight is not None
        sums = _products(built.inputs[0], weight.T)
        if bias is not None:
            sums = [[v + int(b) for v, b in zip(r, bias.tolist(), strict=True)] for r in sums]
        p = built.params
        (got,) = native.run_payload(built.payload(), built.inputs)
        assert np.array_equal(got, _exact_codes(sums, list(p.multiplier), list(p.shift), built))


def test_rounding_of_bmm_equals_python_integers() -> None:
    for seed in range(80):
        built = build(
            "bmm", BMM | {"scales": (2.0**-9, 0.003, (0.7, 3e-4, 2.0**-9)[seed % 3])}, seed
        )
        a, b = built.inputs
        p = built.params
        (got,) = native.run_payload(built.payload(), built.inputs)
        for batch in range(2):
            sums = _products(a[batch], b[batch])
            wanted = _exact_codes(sums, [p.outputMultiplier], [p.outputShift], built)
            assert np.array_equal(got[batch], wanted)


def test_longest_dot_product_of_bmm() -> None:
    """131,071 of the largest products: just below 2^47."""
    built = build("bmm", {**BMM, "scales": (1.0, 1.0, 2.0**32), "bounds": (-32768, 32767)}, 1)
    _long(built, 131071)
    for code, value in ((-32768, 2**15 - 1), (32767, round(32767**2 * 131071 / 2**32))):
        built.inputs = [np.full_like(x, code) for x in built.inputs]
        (got,) = native.run_payload(built.payload(), built.inputs)
        assert got.tolist() == [[[value]]]


def test_float_result_is_the_accumulator_rounded_once() -> None:
    """Accumulators of more than 24 and more than 32 bits."""
    built = build("linear", {**LINEAR, "in_c": 512, "real": True, "real_scales": [1.0]}, 3)
    weight, bias = built.constants
    assert weight is not None
    sums = np.array(_products(built.inputs[0], weight.T), np.int64)
    sums = sums if bias is None else sums + bias
    (got,) = native.run_payload(built.payload(), built.inputs)
    assert got.dtype == np.float32
    assert np.array_equal(got, torch.from_numpy(sums).double().numpy().astype(np.float32))


def test_overflow_rule_is_exact() -> None:
    """|b| + sum |w| * 32768 <= 2^47."""
    weight = torch.tensor([[127, -128], [127, -128], [1, 0], [-1, 0]], dtype=torch.int8)
    room = 2**47 - 255 * 32768
    bias = torch.tensor([room, -room - 1, 2**47 - 32768, -(2**47)])
    assert numerics_wide.accumulator_fits(weight, bias).tolist() == [True, False, True, False]
    assert numerics_wide.accumulator_fits(weight, None).tolist() == [True] * 4


def _narrow_bias(built: Built) -> None:
    built.constants[1] = np.zeros(3, np.int32)


def _wide_weight(built: Built) -> None:
    weight = built.constants[0]
    assert weight is not None
    built.constants[0] = weight.astype(np.int16)


def _narrow_output(built: Built) -> None:
    built.expected = built.expected.astype(np.int8)


def _long(built: Built, k: int = 131072) -> None:
    built.inputs = [np.zeros((1, 1, k), np.int16), np.zeros((1, k, 1), np.int16)]
    built.expected = np.zeros((1, 1, 1), np.int16)


def _other_width(built: Built) -> None:
    built.inputs[1] = built.inputs[1].astype(np.int8)


def _field(name: str, value: Any) -> Callable[[Built], None]:
    return lambda built: setattr(built.params, name, value)


HOSTILE: list[tuple[str, str, dict[str, Any], Callable[[Built], None]]] = [
    ("zero point of int16 codes", "linear", LINEAR, _field("inputZeroPoint", 1)),
    ("zero point of int16 codes", "linear", LINEAR, _field("outputZeroPoint", -1)),
    ("zero point of int16 codes", "bmm", BMM, _field("inputZeroPoint", [0, -32768])),
    ("zero point of int16 codes", "bmm", BMM, _field("outputZeroPoint", 5)),
    ("clamp_max is no code", "conv2d", CONV, _field("clampMax", 32768)),
    ("bias dtype", "conv2d", CONV, _narrow_bias),
    ("weight dtype", "linear", LINEAR, _wide_weight),
    ("output dtype", "linear", {**LINEAR, "bounds": (-5, 5)}, _narrow_output),
    ("sum of so many products", "bmm", {**BMM, "bounds": (-5, 5)}, _long),
    ("second operand's dtype", "bmm", BMM, _other_width),
]


@pytest.mark.parametrize(("message", "opcode", "parameters", "change"), HOSTILE)
def test_malformed_products_are_refused(
    message: str, opcode: str, parameters: dict[str, Any], change: Callable[[Built], None]
) -> None:
    built = build(opcode, parameters, 1)
    native.run_payload(built.payload(), built.inputs)
    change(built)
    with pytest.raises(native.PayloadError, match=message):
        native.run_payload(built.payload(), built.inputs)
