# SPDX-License-Identifier: BSD-3-Clause
"""Cases of max_pool2d, avg_pool2d and adaptive_avg_pool2d.

Parameters: batch, in_h, in_w, in_c, kernel, stride, padding, dilation (pairs), ceil_mode,
count_include_pad, divisor_override, output_size (adaptive), same (quantization in = out), s_in,
s_out, zx, zo, bounds, dtype, x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fused_quant import numerics as nm
from fused_quant import schema_generated as schema
from tests.support import quant
from tests.support.built import Built, nchw, nhwc


def _quantization(
    rng: np.random.Generator, p: quant.Parameters
) -> tuple[float, int, float, int, int, int]:
    """s_in, z_in, s_out, z_out, lo, hi; equal in and out for half of the cases."""
    s_in, z_in = float(p.get("s_in", quant.scale(rng))), quant.zero_point(rng, p, "zx")
    same = bool(p.get("same", rng.integers(2)))
    default_s_out = s_in * 2.0 ** float(rng.integers(-4, 5)) * float(rng.choice([1, 1, 0.7, 1.3]))
    s_out = s_in if same else float(np.float32(p.get("s_out", default_s_out)))
    z_out = z_in if same else quant.zero_point(rng, p, "zo")
    lo, hi = quant.bounds(rng, p, z_out)
    return s_in, z_in, s_out, z_out, lo, hi


def _fields(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    z_in: int,
    z_out: int,
    lo: int,
    hi: int,
) -> dict[str, Any]:
    return {
        "kernelH": kernel[0],
        "kernelW": kernel[1],
        "strideH": stride[0],
        "strideW": stride[1],
        "padTop": padding[0],
        "padLeft": padding[1],
        "padBottom": padding[0],
        "padRight": padding[1],
        "inputZeroPoint": z_in,
        "outputZeroPoint": z_out,
        "clampMin": lo,
        "clampMax": hi,
    }


def _input(rng: np.random.Generator, p: quant.Parameters) -> quant.Codes:
    return quant.codes_of(rng, p, "x", (p.get("batch", 1), p["in_h"], p["in_w"], p["in_c"]))


def build_max_pool(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Largest code of each window, then requantized if the quantization differs."""
    kernel, stride = tuple(p["kernel"]), tuple(p.get("stride", p["kernel"]))
    padding, dilation = tuple(p.get("padding", (0, 0))), tuple(p.get("dilation", (1, 1)))
    x = _input(rng, p)
    s_in, z_in, s_out, z_out, lo, hi = _quantization(rng, p)
    pooled = nm.max_pool2d(nchw(x), kernel, stride, padding, dilation, p.get("ceil_mode", False))
    fields = _fields(kernel, stride, padding, z_in, z_out, lo, hi)
    multipliers: list[nm.Multiplier] = []
    if (s_in, z_in) == (s_out, z_out):
        expected = pooled.clamp(lo, hi)
    else:
        multipliers = [nm.multiplier_from_ratio(s_in / s_out)]
        centred = pooled.to(torch.int64) - z_in
        expected = nm.requantize(centred, multipliers[0], z_out, lo, hi, pooled.dtype)
    fields["multiplier"] = [m.multiplier for m in multipliers]
    fields["shift"] = [m.shift for m in multipliers]
    params = schema.WindowParamsT(dilationH=dilation[0], dilationW=dilation[1], **fields)
    tosa: dict[str, Any] = {}
    if dilation == (1, 1):
        tosa = {"kind": "max_pool2d", "x": x, "kernel": kernel, "stride": stride}
        tosa |= {"padding": padding, "zx": z_in, "zo": z_out, "lo": lo, "hi": hi}
        tosa |= {"multiplier": fields["multiplier"], "shift": fields["shift"]}
        tosa |= {"dtype": x.dtype.name}
    return Built(opcode, [x], [], params, nhwc(expected), tosa)


def _average(
    total: torch.Tensor,
    divisor: torch.Tensor,
    quantization: tuple[float, int, float, int, int, int],
    dtype: torch.dtype,
) -> tuple[torch.Tensor, list[int], list[nm.Multiplier]]:
    """(codes, divisors, their multipliers); the lists are empty for equal quantization."""
    s_in, z_in, s_out, z_out, lo, hi = quantization
    result = nm.average(total, divisor, s_in, z_in, s_out, z_out, lo, hi, dtype)
    if (s_in, z_in) == (s_out, z_out):
        return result, [], []
    counts = sorted(set(divisor.flatten().tolist()))
    return result, counts, [nm.average_multiplier(s_in, n, s_out) for n in counts]


def build_avg_pool(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Average over windows of a fixed size."""
    kernel, stride = tuple(p["kernel"]), tuple(p.get("stride", p["kernel"]))
    padding = tuple(p.get("padding", (0, 0)))
    x = _input(rng, p)
    quantization = _quantization(rng, p)
    _, z_in, _, z_out, lo, hi = quantization
    include_pad, override = bool(p.get("count_include_pad", True)), p.get("divisor_override")
    ceil_mode = bool(p.get("ceil_mode", False))
    total, divisor = nm.avg_pool2d(
        nchw(x), z_in, kernel, stride, padding, ceil_mode, include_pad, override
    )
    expected, counts, multipliers = _average(total, divisor, quantization, nchw(x).dtype)
    params = schema.WindowParamsT(
        countIncludePad=include_pad,
        divisorOverride=override or 0,
        count=counts,
        multiplier=[m.multiplier for m in multipliers],
        shift=[m.shift for m in multipliers],
        **_fields(kernel, stride, padding, z_in, z_out, lo, hi),
    )
    tosa = _average_tosa(x, divisor, counts, multipliers, quantization)
    tosa |= {"kind": "avg_pool2d", "kernel": kernel, "stride": stride, "padding": padding}
    tosa |= {"include_pad": include_pad, "override": override or 0}
    return Built(opcode, [x], [], params, nhwc(expected), tosa)


def build_adaptive_avg_pool(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Average over windows that share out the input."""
    x = _input(rng, p)
    quantization = _quantization(rng, p)
    _, z_in, _, z_out, lo, hi = quantization
    total, divisor = nm.adaptive_avg_pool2d(nchw(x), z_in, tuple(p["output_size"]))
    expected, counts, multipliers = _average(total, divisor, quantization, nchw(x).dtype)
    params = schema.WindowParamsT(
        inputZeroPoint=z_in,
        outputZeroPoint=z_out,
        count=counts,
        multiplier=[m.multiplier for m in multipliers],
        shift=[m.shift for m in multipliers],
        clampMin=lo,
        clampMax=hi,
    )
    tosa = _average_tosa(x, divisor, counts, multipliers, quantization)
    tosa |= {"kind": "adaptive_avg_pool2d"}
    return Built(opcode, [x], [], params, nhwc(expected), tosa)


def _average_tosa(
    x: quant.Codes,
    divisor: torch.Tensor,
    counts: list[int],
    multipliers: list[nm.Multiplier],
    quantization: tuple[float, int, float, int, int, int],
) -> dict[str, Any]:
    _, z_in, _, z_out, lo, hi = quantization
    by_count = {n: (m.multiplier, m.shift) for n, m in zip(counts, multipliers, strict=True)}
    return {
        "x": x,
        "dtype": x.dtype.name,
        "zx": z_in,
        "zo": z_out,
        "lo": lo,
        "hi": hi,
        "divisor": divisor.numpy(),
        "by_count": by_count,
    }
