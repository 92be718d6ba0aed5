# SPDX-License-Identifier: BSD-3-Clause
"""What is compared with the TOSA reference model: operators, types, and how many cases of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tests.oracle import draw, draw_moves


@dataclasses.dataclass(frozen=True)
class Row:
    """Cases of one operator and one type of activations (of weights, where it says int4)."""

    opcode: str
    parameters: Callable[[draw.Rng], draw.Parameters]
    cases: int


PLAN: dict[str, Row] = {
    "rescale int8": Row("linear", draw.rescale, 900),
    "conv2d int8": Row("conv2d", draw.conv2d, 900),
    "depthwise_conv2d int8": Row("depthwise_conv2d", draw.depthwise_conv2d, 700),
    "linear int8": Row("linear", draw.linear, 700),
    "conv1d int8": Row("conv2d", draw.conv1d, 300),
    "depthwise_conv1d int8": Row("depthwise_conv2d", draw.depthwise_conv1d, 220),
    "conv3d int8": Row("conv3d", draw.conv3d, 250),
    "conv_transpose2d int8": Row("conv_transpose2d", draw.conv_transpose2d, 300),
    "bmm int8": Row("bmm", draw.bmm, 250),
    "add int8": Row("add", draw.add, 800),
    "requantize int8": Row("requantize", draw.requantize, 500),
    "mul int8": Row("mul", draw.mul, 300),
    "max_pool2d int8": Row("max_pool2d", draw.max_pool2d, 450),
    "avg_pool2d int8": Row("avg_pool2d", draw.avg_pool2d, 700),
    "adaptive_avg_pool2d int8": Row("adaptive_avg_pool2d", draw.adaptive_avg_pool2d, 220),
    "mean int8": Row("mean", draw.mean, 500),
    "lut int8": Row("lut", draw.lut, 220),
    "maximum int8": Row("maximum", draw.maximum, 220),
    "minimum int8": Row("minimum", draw.minimum, 220),
    "prelu int8": Row("prelu", draw.prelu, 220),
    "cat int8": Row("cat", draw_moves.cat, 250),
    "pad int8": Row("pad", draw_moves.pad, 250),
    "slice, flip, repeat int8": Row("slice", draw_moves.strided, 250),
    "gather int8": Row("gather", draw_moves.gather, 220),
    "upsample_bilinear2d int8": Row("upsample_bilinear2d", draw_moves.bilinear, 250),
    "sum int8": Row("mean", draw.summed, 230),
    "amax int8": Row("amax", draw.extremum("amax"), 230),
    "amin int8": Row("amin", draw.extremum("amin"), 230),
    "argmax int8": Row("argmax", draw.argmax, 210),
    "linear int4": Row("linear_w4", draw.narrow(draw.linear), 220),
    "conv2d int4": Row("conv2d_w4", draw.narrow(draw.conv2d), 220),
    "depthwise_conv2d int4": Row("conv2d_w4", draw.narrow(draw.depthwise_conv2d), 220),
    "add int16": Row("add", draw.wide(draw.add), 220),
    "mul int16": Row("mul", draw.wide(draw.mul), 220),
    "requantize int16": Row("requantize", draw.widths, 220),
    "cat int16": Row("cat", draw.wide(draw_moves.cat), 220),
    "pad int16": Row("pad", draw.wide(draw_moves.pad), 220),
    "linear int16": Row("linear", draw.wide_dot(draw.linear), 220),
    "conv2d int16": Row("conv2d", draw.wide_dot(draw.conv2d), 220),
    "depthwise_conv2d int16": Row("depthwise_conv2d", draw.wide_dot(draw.depthwise_conv2d), 210),
    "conv1d int16": Row("conv2d", draw.wide_dot(draw.conv1d), 210),
    "conv3d int16": Row("conv3d", draw.wide_dot(draw.conv3d), 210),
    "conv_transpose2d int16": Row("conv_transpose2d", draw.wide_dot(draw.conv_transpose2d), 210),
    "bmm int16": Row("bmm", draw.wide_dot(draw.bmm), 210),
    "lut int16": Row("lut", draw.wide_lut, 220),
    "maximum int16": Row("maximum", draw.wide(draw.maximum), 220),
    "minimum int16": Row("minimum", draw.wide(draw.minimum), 220),
    "prelu int16": Row("prelu", draw.wide(draw.prelu), 220),
    "max_pool2d int16": Row("max_pool2d", draw.wide(draw.max_pool2d), 220),
    "avg_pool2d int16": Row("avg_pool2d", draw.wide_avg_pool2d, 220),
    "adaptive_avg_pool2d int16": Row(
        "adaptive_avg_pool2d", draw.wide(draw.adaptive_avg_pool2d), 220
    ),
    "mean int16": Row("mean", draw.wide(draw.mean), 220),
    "sum int16": Row("mean", draw.wide(draw.summed), 220),
    "amax int16": Row("amax", draw.wide(draw.extremum("amax")), 220),
    "amin int16": Row("amin", draw.wide(draw.extremum("amin")), 220),
    "argmax int16": Row("argmax", draw.wide(draw.argmax), 220),
    "softmax int8": Row("softmax", draw.softmax, 230),
    "layer_norm int8": Row("layer_norm", draw.layer_norm, 230),
    "rms_norm int8": Row("rms_norm", draw.rms_norm, 230),
    "slice, flip, repeat int16": Row("slice", draw.wide(draw_moves.strided), 220),
    "gather int16": Row("gather", draw.wide(draw_moves.gather), 220),
    "upsample_bilinear2d int16": Row("upsample_bilinear2d", draw_moves.wide_bilinear, 220),
    "permute int8": Row("permute", draw_moves.permute, 220),
    "permute int16": Row("permute", draw.wide(draw_moves.permute), 220),
}
