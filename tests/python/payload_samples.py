# SPDX-License-Identifier: BSD-3-Clause
"""Small lowered programs, at least one for every operator of the schema.

Every size differs from every other where it may, and every program has an arena tensor, so that a
field read from the wrong place shows. Scales are powers of two times small numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fused_quant import schema_generated as schema
from fused_quant.lowered import LoweredProgram, LoweredTensor, Storage, StoredQParams
from fused_quant.memory_plan import plan_memory

HALF = (2**30, 31)  # multiplier and shift of 0.5
ZERO_POINT = 3
S8 = {"clampMin": -128, "clampMax": 127}
NHWC = (0, 2, 3, 1)


def activation(
    shape: tuple[int, ...], storage: Storage, name: str, dtype: str = "s8"
) -> LoweredTensor:
    order = NHWC if len(shape) == 4 else ()
    qparams = StoredQParams((0.25,), (ZERO_POINT,), -128, 127) if dtype != "f32" else None
    return LoweredTensor(name, dtype, shape, storage, order, qparams)


class Chain:
    """A program whose operators follow each other: input, arena tensors, output."""

    def __init__(self, shape: tuple[int, ...], dtype: str = "s8") -> None:
        self.program = LoweredProgram("generic")
        tensor = activation(shape, Storage.INPUT, "x", dtype)
        tensor.location = 0
        self.last = self.program.add_tensor(tensor)
        self.program.inputs.append(self.last)

    def op(
        self,
        opcode: str,
        params: Any,
        shape: tuple[int, ...],
        *more: int,
        last: bool = False,
        dtype: str = "s8",
    ) -> int:
        """Append an operator on the chain's end and `more`; returns the new end."""
        storage = Storage.OUTPUT if last else Storage.ARENA
        tensor = activation(shape, storage, f"{opcode}_{len(self.program.tensors)}", dtype)
        output = self.program.add_tensor(tensor)
        if last:
            tensor.location = 0
            self.program.outputs.append(output)
        self.program.add_op(opcode, (self.last, *more), (output,), params, f"{opcode} node")
        self.last = output
        return output

    def view(self, shape: tuple[int, ...]) -> None:
        """Read the chain's end in another shape from here on."""
        tensor = activation(shape, Storage.ARENA, "view")
        tensor.alias = self.last
        self.last = self.program.add_tensor(tensor)

    def copy(self, last: bool = True) -> LoweredProgram:
        """Append a copy of the chain's end, to the delegate's output by default; plan."""
        self.op("copy", schema.LayoutParamsT(), self.program.tensors[self.last].shape, last=last)
        plan_memory(self.program)
        return self.program

    def weight(self, shape: tuple[int, ...], channels: int, axis: int) -> tuple[int, int]:
        """Add a weight, one scale per channel along `axis`, and a bias."""
        codes = (np.arange(int(np.prod(shape))) * 37 % 255 - 127).reshape(shape)
        scales = tuple(0.125 * (1 + c) for c in range(channels))
        qparams = StoredQParams(scales, (0,) * channels, -127, 127, axis)
        weight = self.program.add_constant("weight", codes, "s8", qparams)
        bias = self.program.add_constant("bias", np.arange(channels) * 1000 - 1500, "s32")
        return weight, bias


def dot_params(channels: int, **fields: Any) -> Any:
    multiplier = [2**30 + 4097 * c for c in range(channels)]
    shift = [36 + c % 3 for c in range(channels)]
    return schema.DotParamsT(
        inputZeroPoint=ZERO_POINT,
        outputZeroPoint=ZERO_POINT,
        multiplier=multiplier,
        shift=shift,
        **S8,
        **fields,
    )


def window_params(**fields: Any) -> Any:
    return schema.WindowParamsT(
        inputZeroPoint=ZERO_POINT, outputZeroPoint=ZERO_POINT, **{**S8, **fields}
    )


def conv2d() -> LoweredProgram:
    chain = Chain((1, 7, 6, 4))
    operands = chain.weight((6, 3, 2, 2), 6, 0)
    params = dot_params(
        6, kernelH=3, kernelW=2, strideH=2, dilationW=2, padTop=1, padLeft=2, padRight=1, groups=2
    )
    chain.op("conv2d", params, (1, 3, 7, 6), *operands)
    return chain.copy()


def depthwise_conv2d() -> LoweredProgram:
    chain = Chain((2, 5, 6, 3))
    operands = chain.weight((2, 3, 6), 6, 2)
    params = dot_params(6, kernelH=2, kernelW=3, strideW=2, padBottom=1, padLeft=1, groups=3)
    chain.op("depthwise_conv2d", params, (2, 5, 3, 6), *operands)
    return chain.copy()


def linear() -> LoweredProgram:
    chain = Chain((3, 7))
    operands = chain.weight((5, 7), 5, 0)
    chain.op("linear", dot_params(5), (3, 5), *operands)
    return chain.copy()


def linear_w4() -> LoweredProgram:
    """Seven rows of nine codes, each in three groups: an odd number of halves."""
    chain = Chain((3, 9))
    codes = (np.arange(63) * 5 % 16 - 8).reshape(7, 9)
    scales = tuple(0.125 * (1 + n) for n in range(21))
    blocks = StoredQParams(scales, (0,) * 21, -8, 7, scale_shape=(7, 3))
    weight = chain.program.add_constant("weight", codes, "s4", blocks)
    bias = chain.program.add_constant("bias", np.arange(7) * 2**40 - 5 * 2**39, "s64")
    params = dot_params(21, groupSize=3)
    params.shift = params.shift[:7]
    chain.op("linear_w4", params, (3, 7), weight, bias)
    return chain.copy()


def conv2d_w4() -> LoweredProgram:
    chain = Chain((1, 7, 6, 4))
    bias = chain.program.add_constant("bias", np.arange(6) * 1000 - 2500, "s32")
    codes = (np.arange(72) * 7 % 16 - 8).reshape(6, 3, 2, 2)
    qparams = StoredQParams((0.5,), (0,), -8, 7)
    weight = chain.program.add_constant("packed", codes, "s4", qparams)
    params = dot_params(6, kernelH=3, kernelW=2, strideH=2, padTop=1, padLeft=2, groups=2)
    chain.op("conv2d_w4", params, (1, 3, 7, 6), weight, bias)
    return chain.copy()


def linear_without_bias() -> LoweredProgram:
    chain = Chain((7,))
    weight, _ = chain.weight((5, 7), 5, 0)
    del chain.program.tensors[-1]
    params = dot_params(1)
    chain.op("linear", params, (5,), weight, -1)
    return chain.copy()


def add() -> LoweredProgram:
    """Two arena operands and one that is broadcast, live at the same time."""
    chain = Chain((1, 4, 5, 3))
    first = chain.op("copy", schema.LayoutParamsT(), (1, 4, 5, 3))
    other = chain.program.add_constant(
        "row", np.arange(3) - 1, "s8", StoredQParams((0.25,), (0,), -128, 127)
    )
    params = schema.ElementwiseParamsT(
        inputZeroPoint=[ZERO_POINT, 0],
        multiplier=[2**30, 2**30 + 5],
        shift=[12, 12],
        negate=[False, True],
        outputMultiplier=2**30 + 77,
        outputShift=49,
        outputZeroPoint=ZERO_POINT,
        **S8,
    )
    chain.op("add", params, (1, 4, 5, 3), other)
    params = schema.ElementwiseParamsT(**{**vars(params), "inputZeroPoint": [ZERO_POINT] * 2})
    chain.op("add", params, (1, 4, 5, 3), first)
    return chain.copy()


def requantize() -> LoweredProgram:
    chain = Chain((2, 9))
    params = schema.ElementwiseParamsT(
        inputZeroPoint=[ZERO_POINT],
        multiplier=[HALF[0]],
        shift=[HALF[1]],
        negate=[False],
        outputZeroPoint=-4,
        clampMin=-4,
        clampMax=90,
    )
    chain.op("requantize", params, (2, 9))
    return chain.copy()


def max_pool2d() -> LoweredProgram:
    chain = Chain((1, 7, 6, 4))
    params = window_params(kernelH=3, kernelW=2, strideH=2, padTop=1, padLeft=1, dilationW=2)
    chain.op("max_pool2d", params, (1, 3, 5, 4))
    params = window_params(kernelH=2, multiplier=[HALF[0]], shift=[HALF[1]])
    chain.op("max_pool2d", params, (1, 2, 5, 4))
    return chain.copy()


def avg_pool2d() -> LoweredProgram:
    chain = Chain((1, 7, 6, 4))
    params = window_params(kernelH=3, kernelW=2, strideH=2, padTop=1, padBottom=1)
    chain.op("avg_pool2d", params, (1, 4, 5, 4))
    params = window_params(
        kernelH=2,
        kernelW=2,
        divisorOverride=3,
        count=[3],
        multiplier=[HALF[0]],
        shift=[HALF[1] + 1],
    )
    chain.op("avg_pool2d", params, (1, 3, 4, 4))
    return chain.copy()


def adaptive_avg_pool2d() -> LoweredProgram:
    chain = Chain((1, 7, 6, 4))
    chain.op("adaptive_avg_pool2d", window_params(), (1, 3, 4, 4))
    return chain.copy()


def mean() -> LoweredProgram:
    chain = Chain((1, 7, 6, 4))
    params = schema.ReduceParamsT(
        axes=[1, 2],
        inputZeroPoint=ZERO_POINT,
        outputZeroPoint=ZERO_POINT,
        multiplier=HALF[0],
        shift=HALF[1] + 4,
        **S8,
    )
    chain.op("mean", params, (1, 1, 1, 4))
    return chain.copy()


def permute() -> LoweredProgram:
    chain = Chain((2, 3, 4, 5))
    chain.op("permute", schema.LayoutParamsT(perm=[0, 3, 1, 2]), (2, 5, 3, 4))
    return chain.copy()


def view() -> LoweredProgram:
    """A pooled image, copied, then read as rows by a linear layer."""
    chain = Chain((2, 4, 4, 5))
    chain.op("copy", schema.LayoutParamsT(), (2, 4, 4, 5))
    chain.op("avg_pool2d", window_params(kernelH=4, kernelW=2, strideW=2), (2, 1, 2, 5))
    chain.view((2, 10))
    operands = chain.weight((3, 10), 3, 0)
    chain.op("linear", dot_params(3), (2, 3), *operands, last=True)
    plan_memory(chain.program)
    return chain.program


def cast() -> LoweredProgram:
    """Float to float through int8, with a permutation at both ends."""
    chain = Chain((1, 3, 4, 5), "f32")
    fields = {"scale": 0.25, "inverseScale": 4.0, "zeroPoint": ZERO_POINT}
    params = schema.CastParamsT(perm=[0, 2, 3, 1], **fields, **S8)
    chain.op("quantize", params, (1, 4, 5, 3))
    chain.op("copy", schema.LayoutParamsT(), (1, 4, 5, 3))
    params = schema.CastParamsT(perm=[0, 3, 1, 2], **fields)
    chain.op("dequantize", params, (1, 3, 4, 5), last=True, dtype="f32")
    plan_memory(chain.program)
    return chain.program


SAMPLES: dict[str, Callable[[], LoweredProgram]] = {
    sample.__name__: sample
    for sample in (
        conv2d,
        depthwise_conv2d,
        linear,
        linear_without_bias,
        linear_w4,
        conv2d_w4,
        add,
        requantize,
        max_pool2d,
        avg_pool2d,
        adaptive_avg_pool2d,
        mean,
        permute,
        view,
        cast,
    )
}
