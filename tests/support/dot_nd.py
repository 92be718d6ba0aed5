# SPDX-License-Identifier: BSD-3-Clause
"""Cases of convolutions of one or three dimensions, and of transposed ones.

Parameters: those of tests/support/dot.py, but `size` (of the input, a number per dimension) in
place of in_h and in_w, and padding as (before, after) of each dimension in turn; output_padding of
a transposed convolution.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fused_quant import numerics_conv
from fused_quant import schema_generated as schema
from tests.support import dot, quant
from tests.support.built import Array, Built, tensor

_SIDES = (("padFront", "padBack"), ("padTop", "padBottom"), ("padLeft", "padRight"))


def _channels_second(array: Array) -> torch.Tensor:
    return tensor(array).movedim(-1, 1)


def _accumulators(
    p: quant.Parameters, x: Array, w: Array, bias: Array | None, zx: int, transposed: bool
) -> torch.Tensor:
    """W: [out_c, kernel..., in_c / groups]."""
    rank = len(p["size"])
    weight = _channels_second(w)
    biases = None if bias is None else tensor(bias)
    stride, dilation = p.get("stride", (1,) * rank), p.get("dilation", (1,) * rank)
    sides, groups = p.get("padding", (0, 0) * rank), p.get("groups", 1)
    if not transposed:
        return numerics_conv.accumulate(
            _channels_second(x), weight, biases, zx, stride, sides, dilation, groups
        )
    out_c, depth, *kernel = weight.shape
    by_group = weight.reshape(groups, out_c // groups, depth, *kernel).transpose(1, 2)
    return numerics_conv.accumulate_transposed(
        _channels_second(x),
        by_group.reshape(groups * depth, out_c // groups, *kernel),
        biases,
        zx,
        stride,
        sides[::2],
        dilation,
        p.get("output_padding", (0,) * rank),
        groups,
    )


def _geometry(p: quant.Parameters, kernel: tuple[int, ...]) -> dict[str, Any]:
    """Fields of DotParams; those of absent dimensions keep their defaults."""
    rank = len(kernel)
    sides = p.get("padding", (0, 0) * rank)
    fields: dict[str, Any] = {"groups": p.get("groups", 1)}
    for i, axis in enumerate("DHW"[-rank:]):
        fields[f"kernel{axis}"] = kernel[i]
        fields[f"stride{axis}"] = p.get("stride", (1,) * rank)[i]
        fields[f"dilation{axis}"] = p.get("dilation", (1,) * rank)[i]
        fields |= dict(zip(_SIDES[-rank:][i], sides[2 * i : 2 * i + 2], strict=True))
        if "output_padding" in p:
            fields[f"outputPadding{axis}"] = p["output_padding"][i]
    return fields


def build(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """A convolution; x and w are drawn in stored order."""
    in_c, out_c = p["in_c"], p["out_c"]
    if opcode == "depthwise_conv2d":
        p = {**p, "groups": in_c}
    size, groups = tuple(p["size"]), p.get("groups", 1)
    kernel = tuple(p.get("kernel", (1,) * len(size)))
    zx, zo = quant.zero_point(rng, p, "zx"), quant.zero_point(rng, p, "zo")
    x = quant.codes_of(rng, p, "x", (p.get("batch", 1), *size, in_c))
    w = quant.weights_of(rng, p, (out_c, *kernel, in_c // groups))
    bias = dot.draw_bias(rng, p, tensor(w), zx)
    transposed = opcode == "conv_transpose2d"
    acc = _accumulators(p, x, w, bias, zx, transposed)
    taps = w[0].size
    result, fields, tosa = dot.finish(rng, p, acc, zx, zo, taps, axis=1)
    expected = np.ascontiguousarray(np.moveaxis(result, 1, -1))
    params = schema.DotParamsT(**_geometry(p, kernel), **fields)
    if tosa:
        tosa |= {
            "kind": "conv1d" if len(size) == 1 else opcode,
            "x": x,
            "w": w,
            "bias": bias,
            "groups": groups,
        }
        tosa |= {
            name: p[name]
            for name in ("stride", "dilation", "padding", "output_padding")
            if name in p
        }
    stored, stored_bias = w, bias
    if len(size) == 1:
        stored = w[:, None]
    if opcode == "depthwise_conv2d":
        stored = np.ascontiguousarray(stored[..., 0].transpose(1, 2, 0))
    if opcode in ("conv2d", "depthwise_conv2d"):
        stored_bias = dot.stored_bias(p, bias, tensor(w), zx)
    return Built(opcode, [x], [stored, stored_bias], params, expected, tosa)
