# SPDX-License-Identifier: BSD-3-Clause
"""Serialization of the convolutions of every rank: parameters, stored weights, one step.

Images are stored channels last. One spatial dimension runs as an image of height 1 whose tensors
leave the height out, on the kernels of two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fused_quant.ops import dot, narrow
from fused_quant.ops.spec import Site

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_AXES = ("D", "H", "W")
_SIDES = (("padFront", "padBack"), ("padTop", "padBottom"), ("padLeft", "padRight"))


def _accumulator_bytes(site: Site, out_c: int) -> int:
    """What a kernel that sums all channels of one position keeps."""
    return out_c * (8 if dot.is_wide(site) else 4)


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Attributes of a convolution, a number per spatial dimension; `sides` (before, after)."""

    stride: Sequence[int]
    dilation: Sequence[int]
    sides: Sequence[int]
    groups: int
    output_padding: Sequence[int] = ()

    def as_image(self) -> Geometry:
        """Of one spatial dimension: with a height of 1 in front."""
        return dataclasses.replace(
            self,
            stride=[1, *self.stride],
            dilation=[1, *self.dilation],
            sides=[0, 0, *self.sides],
            output_padding=[0, *self.output_padding] if self.output_padding else (),
        )


def _params(site: Site, builder: Builder, geometry: Geometry, kernel: Sequence[int]) -> Any:
    params = dot.params(site, builder)
    rank = len(kernel)
    for i, (axis, sides) in enumerate(zip(_AXES[-rank:], _SIDES[-rank:], strict=True)):
        setattr(params, f"kernel{axis}", kernel[i])
        setattr(params, f"stride{axis}", geometry.stride[i])
        setattr(params, f"dilation{axis}", geometry.dilation[i])
        for name, amount in zip(sides, geometry.sides[2 * i : 2 * i + 2], strict=True):
            setattr(params, name, amount)
        if geometry.output_padding:
            setattr(params, f"outputPadding{axis}", geometry.output_padding[i])
    params.groups = geometry.groups
    return params


def _emit(
    opcode: str,
    site: Site,
    builder: Builder,
    params: Any,
    stored: torch.Tensor,
    macs: int,
    scratch: int,
    axis: int = 0,
    folded: bool = True,
) -> None:
    """axis: the stored dimension of the output channels. folded: the bias is."""
    order = builder.channels_last(len(site.out_shape))
    out = builder.result(order)
    dtype = "s4" if opcode.endswith("_w4") else "s8"
    data = np.ascontiguousarray(stored.numpy())
    inputs = [
        builder.operand("inp", order),
        builder.constant("weight", data, dtype, dot.stored_weight_params(site, axis)),
        dot.store_bias(site, builder, folded),
    ]
    builder.emit(opcode, inputs, [out], params, macs=macs, scratch_bytes=scratch)


def lower_convolution(site: Site, builder: Builder, geometry: Geometry) -> None:
    """The weight of the site is [out_c, in_c / groups, spatial...] with 1 to 3 dimensions."""
    weight = site.constants["weight"]
    if weight.dim() == 3:
        weight, geometry = weight.unsqueeze(2), geometry.as_image()
    out_c, depth, *kernel = weight.shape
    params = _params(site, builder, geometry, kernel)
    macs = int(np.prod(site.out_shape)) * int(np.prod(weight.shape[1:]))
    scratch = _accumulator_bytes(site, out_c)
    if len(kernel) == 3:
        stored = weight.permute(0, 2, 3, 4, 1)
        _emit("conv3d", site, builder, params, stored, macs, scratch, folded=False)
    elif narrow.is_packed(site):
        stored = weight.permute(0, 2, 3, 1)
        _emit("conv2d_w4", site, builder, params, stored, macs, scratch=weight[0].numel())
    elif geometry.groups > 1 and depth == 1:
        stored = weight[:, 0].permute(1, 2, 0)
        _emit("depthwise_conv2d", site, builder, params, stored, macs, scratch, axis=2)
    else:
        _emit("conv2d", site, builder, params, weight.permute(0, 2, 3, 1), macs, scratch=0)


def lower_transposed(site: Site, builder: Builder, geometry: Geometry) -> None:
    """As `lower_convolution`, the weight by output channel, with 1 or 2 dimensions."""
    weight = site.constants["weight"]
    if weight.dim() == 3:
        weight, geometry = weight.unsqueeze(2), geometry.as_image()
    out_c, _, *kernel = weight.shape
    params = _params(site, builder, geometry, kernel)
    shape = site.shapes["inp"]
    macs = int(np.prod(shape)) * weight.numel() // shape[1]
    stored = weight.permute(0, 2, 3, 1)
    scratch = _accumulator_bytes(site, out_c)
    _emit("conv_transpose2d", site, builder, params, stored, macs, scratch, folded=False)
