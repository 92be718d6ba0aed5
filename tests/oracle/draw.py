# SPDX-License-Identifier: BSD-3-Clause
"""Random operator parameters for the comparison with the TOSA reference model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Parameters = dict[str, Any]
Rng = np.random.Generator


def _pair(rng: Rng, low: int, high: int) -> tuple[int, int]:
    """Two integers in [low, high]."""
    a, b = rng.integers(low, high + 1, 2).tolist()
    return a, b


def _conv(rng: Rng, groups: int, group_c: int, group_out: int) -> Parameters:
    kernel, dilation = _pair(rng, 1, 4), _pair(rng, 1, 2)
    extra = _pair(rng, 0, 4)
    # Padding stays below the extent of the kernel: TOSA cannot state a window of padding alone.
    room = [min(2, dilation[axis] * (kernel[axis] - 1)) for axis in (0, 1, 0, 1)]
    return {
        "batch": int(rng.integers(1, 4)),
        "in_h": dilation[0] * (kernel[0] - 1) + 1 + extra[0],
        "in_w": dilation[1] * (kernel[1] - 1) + 1 + extra[1],
        "in_c": groups * group_c,
        "out_c": groups * group_out,
        "groups": groups,
        "kernel": kernel,
        "dilation": dilation,
        "stride": _pair(rng, 1, 3),
        "padding": tuple(int(rng.integers(0, most + 1)) for most in room),
        "bias": bool(rng.integers(4)),
        "per_channel": bool(rng.integers(3)),
    }


def conv2d(rng: Rng) -> Parameters:
    """A convolution of one to three groups."""
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    return _conv(rng, groups, int(rng.integers(1, 6)), int(rng.integers(1, 6)))


def depthwise_conv2d(rng: Rng) -> Parameters:
    """A depthwise convolution with a multiplier of 1 to 3."""
    return _conv(rng, int(rng.integers(1, 8)), 1, int(rng.integers(1, 4)))


def _conv_nd(rng: Rng, rank: int, groups: int, group_c: int, group_out: int) -> Parameters:
    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.integers(low, high + 1, rank).tolist())

    kernel, dilation, stride, extra = numbers(1, 4), numbers(1, 2), numbers(1, 3), numbers(0, 4)
    extents = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    sides = [int(rng.integers(0, min(3, extent))) for extent in extents for _ in (0, 1)]
    return {
        "batch": int(rng.integers(1, 3)),
        "size": tuple(extent + more for extent, more in zip(extents, extra, strict=True)),
        "in_c": groups * group_c,
        "out_c": groups * group_out,
        "groups": groups,
        "kernel": kernel,
        "dilation": dilation,
        "stride": stride,
        "padding": tuple(sides),
        "bias": bool(rng.integers(4)),
        "per_channel": bool(rng.integers(3)),
    }


def conv1d(rng: Rng) -> Parameters:
    """A convolution of one dimension, of one to three groups."""
    groups = int(rng.choice([1, 1, 2, 3]))
    return _conv_nd(rng, 1, groups, int(rng.integers(1, 6)), int(rng.integers(1, 6)))


def depthwise_conv1d(rng: Rng) -> Parameters:
    """A depthwise convolution of one dimension."""
    return _conv_nd(rng, 1, int(rng.integers(2, 8)), 1, int(rng.integers(1, 4)))


def conv3d(rng: Rng) -> Parameters:
    """A convolution of three dimensions, of one or two groups."""
    groups = int(rng.choice([1, 1, 2]))
    return _conv_nd(rng, 3, groups, int(rng.integers(1, 4)), int(rng.integers(1, 4)))


def conv_transpose2d(rng: Rng) -> Parameters:
    """A transposed convolution of one to three groups; TOSA has no dilation."""
    groups = int(rng.choice([1, 1, 2, 3]))
    drawn = _conv_nd(rng, 2, groups, int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    amounts = [min(int(rng.integers(0, 3)), kernel - 1) for kernel in drawn["kernel"]]
    return {
        **drawn,
        "size": tuple(rng.integers(3, 7, 2).tolist()),
        "dilation": (1, 1),
        "padding": tuple(amount for amount in amounts for _ in (0, 1)),
        "output_padding": tuple(int(rng.integers(0, stride)) for stride in drawn["stride"]),
    }


def bmm(rng: Rng) -> Parameters:
    """Batches of matrices; one case in four has one matrix for all of the other operand's."""
    batch, m, k, n = rng.integers(1, 9, 4).tolist()
    batches = rng.choice([[batch, batch], [batch, batch], [batch, 1], [1, batch]]).tolist()
    return {"op": "bmm", "shapes": ((batches[0], m, 4 * k), (batches[1], 4 * k, n))}


def linear(rng: Rng) -> Parameters:
    """A linear layer on input of rank 1 to 3."""
    return {
        "rows": tuple(rng.integers(1, 5, int(rng.integers(0, 3))).tolist()),
        "in_c": int(rng.integers(1, 70)),
        "out_c": int(rng.integers(1, 20)),
        "bias": bool(rng.integers(4)),
        "per_channel": bool(rng.integers(3)),
    }


def narrow(parameters: Callable[[Rng], Parameters]) -> Callable[[Rng], Parameters]:
    """The same with weights of 4 bits; TOSA's have no -8."""
    return lambda rng: {**parameters(rng), "w_low": -7}


def rescale(rng: Rng) -> Parameters:
    """Accumulators over all of int32 with any multiplier and shift; mostly in TOSA's domain."""
    count = int(rng.integers(1, 40))
    shifts = rng.integers(2, 63, count)
    room = np.minimum(31, shifts - 1) if rng.integers(50) else np.full(count, 31)
    size = 2.0 ** (room if rng.integers(2) else room * rng.uniform(0, 1, count))
    acc = np.trunc(size * rng.uniform(-1, 1, count))
    edges = rng.choice([-size, size - 1], 1)[0]
    acc = np.where(rng.integers(8, size=count) == 0, np.maximum(edges, 1 - size), acc)
    multiplier = rng.integers(0, 2**31, count)
    special = rng.choice([0, 1, 2**30, 2**31 - 1], count)
    multiplier = np.where(rng.integers(3, size=count) == 0, special, multiplier)
    if rng.integers(3) == 0:  # exact halves: acc * 2^30 / 2^s with s - 30 low bits 10...0
        multiplier[:] = 2**30
        step = 2.0 ** np.clip(shifts - 30, 1, 29)
        acc = np.clip(np.trunc(acc / step) * step + step / 2, 1 - size, size - 1)
    return {
        "acc": acc.astype(np.int64).tolist(),
        "multipliers": list(zip(multiplier.tolist(), shifts.tolist(), strict=True)),
    }


def add(rng: Rng) -> Parameters:
    """A sum or difference; one operand in four is broadcast."""
    shape = tuple(rng.integers(1, 7, int(rng.integers(1, 5))).tolist())
    other = shape
    if rng.integers(4) == 0:
        other = tuple(1 if rng.integers(2) else size for size in shape)[int(rng.integers(2)) :]
    return {"shape_a": shape, "shape_b": other}


def mul(rng: Rng) -> Parameters:
    """A product, drawn as a sum is."""
    drawn = add(rng)
    return {"op": "mul", "shapes": (drawn["shape_a"], drawn["shape_b"])}


def maximum(rng: Rng) -> Parameters:
    """The larger of two tensors, drawn as those of a sum are."""
    return {**mul(rng), "op": "maximum"}


def minimum(rng: Rng) -> Parameters:
    """The smaller of two tensors."""
    return {**mul(rng), "op": "minimum"}


def wide(parameters: Callable[[Rng], Parameters]) -> Callable[[Rng], Parameters]:
    """The same with int16 codes. Of a product, the scales keep it within TOSA's RESCALE."""

    def drawn(rng: Rng) -> Parameters:
        p = {**parameters(rng), "dtype": "int16"}
        if p.get("op") == "mul":
            s_a, s_b = (float(np.float32(v)) for v in 2.0 ** rng.uniform(-14, 0, 2))
            if rng.integers(2):
                s_a, s_b = (float(2.0 ** round(np.log2(v))) for v in (s_a, s_b))
            p["scales"] = (s_a, s_b, float(s_a * s_b * 2.0 ** rng.integers(12, 17)))
        return p

    return drawn


def wide_dot(parameters: Callable[[Rng], Parameters]) -> Callable[[Rng], Parameters]:
    """The same on int16 activations, with the multipliers of 15 bits that TOSA has there."""

    def drawn(rng: Rng) -> Parameters:
        p = {**parameters(rng), "dtype": "int16", "coarse": True}
        if p.get("op") == "bmm":
            s_a = int(rng.integers(2**14, 2**15)) * 2.0 ** int(rng.integers(-30, -14))
            s_b = 2.0 ** int(rng.integers(-15, 0))
            typical = 2.0 ** (round(np.log2(s_a * s_b)) + int(rng.integers(13, 18)))
            p["scales"] = (s_a, s_b, typical)
        else:
            p["style"] = str(rng.choice(("typical", "tie", "tiny")))
        return p

    return drawn


def widths(rng: Rng) -> Parameters:
    """A requantize of int16, to int8 or from it in two cases of three."""
    narrow: tuple[str, ...] = ((), ("x",), ("out",))[int(rng.integers(3))]
    return {"shape": tuple(_pair(rng, 1, 12)), "dtype": "int16", "narrow": narrow}


WIDE_FUNCTIONS = ("sigmoid", "tanh", "silu", "mish", "exp", "erf", "sqrt", "sin")
FUNCTIONS = ("sigmoid", "tanh", "silu", "mish", "abs", "floor", "exp", "log", "rsqrt", "sin")


def lut(rng: Rng) -> Parameters:
    """Some function of one element."""
    shape = tuple(rng.integers(1, 7, int(rng.integers(1, 5))).tolist())
    return {"op": str(rng.choice(FUNCTIONS)), "shapes": (shape,)}


def wide_lut(rng: Rng) -> Parameters:
    """Some function of one int16 code."""
    scales = tuple(float(np.float32(2.0 ** rng.uniform(*e))) for e in ((-14, -8), (-15, -9)))
    return {**lut(rng), "op": str(rng.choice(WIDE_FUNCTIONS)), "dtype": "int16", "scales": scales}


def wide_avg_pool2d(rng: Rng) -> Parameters:
    """What AVG_POOL2D can say; int16 has no sums of windows as results."""
    return {**avg_pool2d(rng), "divisor_override": None, "same": True, "dtype": "int16"}


def prelu(rng: Rng) -> Parameters:
    """Slopes of both signs, some of them 0 or powers of two."""
    rows, channels = _pair(rng, 1, 12)
    slopes = rng.uniform(-2, 2, channels + 1)
    ties = rng.choice([0.0, 0.5, -0.25, 1.0], channels + 1)
    weight = np.where(rng.integers(3, size=channels + 1) == 0, ties, slopes)
    shape = (rows, channels + 1)
    return {"op": "prelu", "shapes": (shape,), "attributes": ({"tensor": weight.tolist()},)}


def requantize(rng: Rng) -> Parameters:
    """Other quantization, or only a clamp."""
    return {"shape": tuple(_pair(rng, 1, 12)), "same": bool(rng.integers(4) == 0)}


def max_pool2d(rng: Rng) -> Parameters:
    """Padding up to half a window."""
    kernel = _pair(rng, 1, 5)
    extra = _pair(rng, 0, 6)
    return {
        "batch": int(rng.integers(1, 4)),
        "in_h": kernel[0] + extra[0],
        "in_w": kernel[1] + extra[1],
        "in_c": int(rng.integers(1, 6)),
        "kernel": kernel,
        "stride": _pair(rng, 1, 4),
        "padding": tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel),
        "ceil_mode": bool(rng.integers(2)),
    }


def avg_pool2d(rng: Rng) -> Parameters:
    """All flags; a divisor of one's own in one case of four."""
    override = int(rng.integers(1, 20)) if rng.integers(4) == 0 else None
    flags = {"count_include_pad": bool(rng.integers(2)), "divisor_override": override}
    return {**max_pool2d(rng), **flags}


def adaptive_avg_pool2d(rng: Rng) -> Parameters:
    """Up to 3 x 3 windows."""
    size = _pair(rng, 1, 9)
    parameters = {"batch": int(rng.integers(1, 3)), "in_c": int(rng.integers(1, 6))}
    return {**parameters, "in_h": size[0], "in_w": size[1], "output_size": _pair(rng, 1, 3)}


def mean(rng: Rng) -> Parameters:
    """Any set of axes of a tensor of rank 1 to 4."""
    shape = tuple(rng.integers(1, 8, int(rng.integers(1, 5))).tolist())
    axes = [axis for axis in range(len(shape)) if rng.integers(2)] or [len(shape) - 1]
    return {"shape": shape, "axes": tuple(axes)}


def summed(rng: Rng) -> Parameters:
    """A sum, drawn as a mean is."""
    drawn = mean(rng)
    attributes = (list(drawn["axes"]), bool(rng.integers(2)))
    return {"op": "sum", "shapes": (drawn["shape"],), "attributes": attributes}


def extremum(name: str) -> Callable[[Rng], Parameters]:
    """An amax or amin, drawn as a mean is; between grids that differ by up to 2^3."""

    def parameters(rng: Rng) -> Parameters:
        scale = float(2.0 ** rng.integers(-6, 3))
        scales = (scale, float(np.float32(scale * 2.0 ** rng.uniform(-3, 3))))
        return {**summed(rng), "op": name, "scales": scales}

    return parameters


def argmax(rng: Rng) -> Parameters:
    """Along any axis, or over all elements."""
    shape = tuple(rng.integers(1, 9, int(rng.integers(1, 5))).tolist())
    axis = None if rng.integers(5) == 0 else int(rng.integers(len(shape)))
    return {"shape": shape, "axis": axis}


def _rows(rng: Rng) -> tuple[int, int]:
    longest = int(rng.choice([9, 70, 600]))
    return int(rng.integers(1, 5)), int(rng.integers(1, longest))


def softmax(rng: Rng) -> Parameters:
    """On the contract's grid, or a coarser one."""
    out = 1 / 256 if rng.integers(2) else float(rng.uniform(1 / 256, 1 / 32))
    zo = -128 if rng.integers(2) else int(rng.integers(-128, 128))
    scales = (float(2.0 ** rng.uniform(-9, 2)), out)
    grid = {"scales": scales, "zero_points": (int(rng.integers(-128, 128)), zo)}
    return {"op": "softmax", "shapes": (_rows(rng),), "attributes": (-1,), **grid}


def _affine(rng: Rng, count: int) -> Parameters | None:
    if rng.integers(4) == 0:
        return None
    return {"tensor": rng.normal(0.3, 1, count).astype(np.float32)}


def layer_norm(rng: Rng) -> Parameters:
    """With and without weight and bias; eps between nothing and a lot."""
    shape = _rows(rng)
    eps = float(rng.choice([0.0, 1e-12, 1e-5, 1e-3, 1.0]))
    affine = (_affine(rng, shape[1]), _affine(rng, shape[1]))
    scales = (float(2.0 ** rng.uniform(-9, 1)), float(2.0 ** rng.uniform(-7, -3)))
    attributes = ([shape[1]], *affine, eps)
    return {
        "op": "native_layer_norm",
        "shapes": (shape,),
        "attributes": attributes,
        "scales": scales,
    }


def rms_norm(rng: Rng) -> Parameters:
    """Drawn as a layer norm is."""
    drawn = layer_norm(rng)
    shape, weight, _, eps = drawn["attributes"]
    return {**drawn, "op": "rms_norm", "attributes": (shape, weight, eps)}
