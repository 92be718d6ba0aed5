# SPDX-License-Identifier: BSD-3-Clause
"""Cases of conv2d, depthwise_conv2d and linear.

Parameters (all optional but the sizes): batch, in_h, in_w, in_c, out_c, kernel, stride, dilation
(pairs), padding (top, left, bottom, right), groups, rows (linear: its leading dimensions), bias,
per_channel, zx, zo, bounds, style or ratio or multipliers, and x, w, bias_values as given codes;
real: a float output, of `real_scales` or drawn ones; dtype: of the activations (weights are int8);
coarse: multipliers whose lower 16 bits are 0, the ones that TOSA has for int16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fused_quant import numerics as nm
from fused_quant import numerics_wide
from fused_quant import schema_generated as schema
from tests.support import quant
from tests.support.built import Array, Built, nchw, nhwc, tensor


def draw_bias(
    rng: np.random.Generator, p: quant.Parameters, w: torch.Tensor, zx: int
) -> Array | None:
    """Per output channel, such that no accumulator can leave int32 (int48 of int16 codes)."""
    out_c = w.shape[0]
    low, high = quant.limits(quant.dtype_of(p))
    wide = high > 127
    dtype = np.int64 if wide else np.int32
    if "bias_values" in p:
        return np.array(p["bias_values"], dtype)
    if not p.get("bias", True):
        return None
    reach = w.to(torch.int64).abs().flatten(1).sum(1) * max(high - zx, zx - low)
    room = (2 ** (47 if wide else 31) - 1 - reach).numpy()
    ends = rng.integers(8) == 0 and not p.get("coarse")  # TOSA stops where a result leaves int32
    if ends:
        return np.asarray(room * rng.choice([-1, 1], out_c), dtype)
    size = np.minimum(room, 2 * reach.numpy() + 1)
    return np.asarray(size * rng.uniform(-1, 1, out_c), dtype)


def _multipliers(
    rng: np.random.Generator, p: quant.Parameters, out_c: int, taps: int
) -> list[nm.Multiplier]:
    if "multipliers" in p:
        return [nm.Multiplier(*pair) for pair in p["multipliers"]]
    count = out_c if p.get("per_channel", True) else 1
    drawn = quant.ratios(rng, p, count, spread=74 * 74 * taps**0.5)
    exact = nm.multipliers_from_ratios(drawn)
    if not p.get("coarse"):
        return exact
    return [nm.Multiplier(m.multiplier >> 16 << 16, m.shift) for m in exact]


def _common(
    zx: int, zo: int, m: list[nm.Multiplier], lo: int, hi: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of DotParams, and of the description for the reference model."""
    multiplier = [k.multiplier for k in m]
    shift = [k.shift for k in m]
    fields = {
        "inputZeroPoint": zx,
        "outputZeroPoint": zo,
        "multiplier": multiplier,
        "shift": shift,
        "clampMin": lo,
        "clampMax": hi,
    }
    tosa = {"zx": zx, "zo": zo, "multiplier": multiplier, "shift": shift, "lo": lo, "hi": hi}
    return fields, tosa


def _real(
    rng: np.random.Generator, p: quant.Parameters, acc: torch.Tensor, zx: int, axis: int
) -> tuple[Array, dict[str, Any]]:
    """float32 of the accumulators, times a float32 scale; by numpy."""
    count = acc.shape[axis] if p.get("per_channel", True) else 1
    scales = np.asarray(p.get("real_scales") or 2.0 ** rng.uniform(-20, 4, count), np.float32)
    shape = [1] * acc.dim()
    shape[axis] = len(scales)
    expected = acc.numpy().astype(np.float32) * scales.reshape(shape)
    return expected, {"inputZeroPoint": zx, "realScale": scales.tolist()}


def finish(
    rng: np.random.Generator,
    p: quant.Parameters,
    acc: torch.Tensor,
    zx: int,
    zo: int,
    taps: int,
    axis: int,
) -> tuple[Array, dict[str, Any], dict[str, Any]]:
    """The result of accumulators, fields of DotParams and the reference model's description.

    axis: that of the output channels.
    """
    if p.get("real"):
        expected, fields = _real(rng, p, acc, zx, axis)
        return expected, fields, {}
    m = _multipliers(rng, p, acc.shape[axis], taps)
    lo, hi = quant.bounds(rng, p, zo)
    multipliers, dtype = m if len(m) > 1 else m[0], quant.dtype_of(p)
    if dtype == np.int16:
        codes = numerics_wide.requantize(acc, multipliers, lo, hi, axis)
    else:
        codes = nm.requantize(acc, multipliers, zo, lo, hi, torch.int8, axis=axis)
    fields, tosa = _common(zx, zo, m, lo, hi)
    return codes.numpy(), fields, {**tosa, "dtype": dtype.name}


def stored_bias(p: quant.Parameters, bias: Array | None, w: torch.Tensor, zx: int) -> Array | None:
    """The bias of an operator whose bias is folded; that of int16 codes needs no folding."""
    if quant.dtype_of(p) == np.int16:
        return bias
    folded = nm.fold_bias(None if bias is None else tensor(bias), w, zx).numpy()
    return folded if bias is not None or folded.any() else None


def build_conv(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """A convolution; x and w are drawn in stored order."""
    in_c, out_c, groups = p["in_c"], p["out_c"], p.get("groups", 1)
    if opcode == "depthwise_conv2d":
        groups = in_c
    kernel, stride = p.get("kernel", (1, 1)), p.get("stride", (1, 1))
    dilation, padding = p.get("dilation", (1, 1)), p.get("padding", (0, 0, 0, 0))
    zx, zo = quant.zero_point(rng, p, "zx"), quant.zero_point(rng, p, "zo")
    x = quant.codes_of(rng, p, "x", (p.get("batch", 1), p["in_h"], p["in_w"], in_c))
    w_shape = (out_c, *kernel, in_c // groups)
    w = quant.weights_of(rng, p, w_shape)
    w_oihw = nchw(w)
    bias = draw_bias(rng, p, w_oihw, zx)
    acc = nm.conv2d(
        nchw(x),
        w_oihw,
        None if bias is None else tensor(bias),
        zx,
        tuple(stride),
        tuple(padding),
        tuple(dilation),
        groups,
    )
    taps = kernel[0] * kernel[1] * in_c // groups
    result, fields, tosa = finish(rng, p, acc, zx, zo, taps, axis=1)
    expected = nhwc(tensor(result))
    params = schema.DotParamsT(
        kernelH=kernel[0],
        kernelW=kernel[1],
        strideH=stride[0],
        strideW=stride[1],
        dilationH=dilation[0],
        dilationW=dilation[1],
        padTop=padding[0],
        padLeft=padding[1],
        padBottom=padding[2],
        padRight=padding[3],
        groups=groups,
        **fields,
    )
    if tosa:
        tosa |= {"kind": "conv2d", "x": x, "w": w, "bias": bias, "groups": groups}
        tosa |= {"stride": stride, "padding": padding, "dilation": dilation}
    depthwise = opcode == "depthwise_conv2d"
    stored_w = np.ascontiguousarray(w[..., 0].transpose(1, 2, 0)) if depthwise else w
    constants = [stored_w, stored_bias(p, bias, w_oihw, zx)]
    return Built(opcode, [x], constants, params, expected, tosa)


def build_linear(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """X [*rows, in_c], w [out_c, in_c]."""
    in_c, out_c = p["in_c"], p["out_c"]
    zx, zo = quant.zero_point(rng, p, "zx"), quant.zero_point(rng, p, "zo")
    x = quant.codes_of(rng, p, "x", (*p.get("rows", (1,)), in_c))
    w = quant.weights_of(rng, p, (out_c, in_c))
    bias = draw_bias(rng, p, tensor(w), zx)
    acc = nm.linear(tensor(x), tensor(w), None if bias is None else tensor(bias), zx)
    expected, fields, tosa = finish(rng, p, acc, zx, zo, in_c, axis=-1)
    if tosa:
        tosa |= {"kind": "linear", "x": x, "w": w, "bias": bias}
    constants = [w, stored_bias(p, bias, tensor(w), zx)]
    return Built(opcode, [x], constants, schema.DotParamsT(**fields), expected, tosa)


def build_rescale(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Requantization of given accumulators `acc`, one multiplier each, as a linear operator.

    The only input equals its zero point, so that the bias is the accumulator.
    """
    acc = np.array(p["acc"], np.int64 if quant.dtype_of(p) == np.int16 else np.int32)
    zx = quant.zero_point(rng, p, "zx")
    fixed = {"in_c": 1, "out_c": len(acc), "zx": zx, "x": zx, "bias_values": acc}
    built = build_linear(opcode, {**p, **fixed}, rng)
    built.tosa = {**built.tosa, "kind": "rescale", "acc": acc}
    return built
