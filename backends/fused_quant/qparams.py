# SPDX-License-Identifier: BSD-3-Clause
"""Quantization parameters: real = scale * (code - zero_point).

Granularity is the shape of `scale`: one element means per tensor; otherwise `scale` has the rank of
the tensor and every entry covers a block of `tensor.shape[i] // scale.shape[i]` elements along
dimension i (one non-unit dimension that equals the tensor's = per channel).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from fused_quant import numerics
from fused_quant.reasons import Reason

BYTE_OFFSET = 128
BLOCK_FIELDS = ("scale", "zero_point", "dtype", "quant_min", "quant_max")


@dataclasses.dataclass(frozen=True)
class QParams:
    """The parameters of one edge.

    `dtype` is the storage dtype for an output and the float dtype for an input block (the operand
    tensor itself says how it is stored).
    """

    scale: torch.Tensor
    zero_point: torch.Tensor
    dtype: torch.dtype
    quant_min: int
    quant_max: int

    @classmethod
    def from_block(
        cls,
        scale: torch.Tensor | None,
        zero_point: torch.Tensor | None,
        dtype: torch.dtype,
        quant_min: int,
        quant_max: int,
        name: str = "block",
    ) -> QParams | None:
        """Parse a flat block; None for a null block. ValueError if only one of the two is None."""
        if scale is None and zero_point is None:
            return None
        if scale is None or zero_point is None:
            missing = "scale" if scale is None else "zero_point"
            raise ValueError(
                f"{name}: got {missing}=None alone, supported: both None (float edge) or neither"
            )
        if scale.shape != zero_point.shape:
            raise ValueError(
                f"{name}: got scale {tuple(scale.shape)} and zero_point "
                f"{tuple(zero_point.shape)}, supported: equal shapes"
            )
        return cls(scale, zero_point, dtype, quant_min, quant_max)

    @classmethod
    def per_tensor(
        cls, scale: float, zero_point: int, dtype: torch.dtype, quant_min: int, quant_max: int
    ) -> QParams:
        """One scale for the whole tensor; kept in float32 when that is exact, else in float64."""
        exact = numerics.is_float32_scale(scale)
        scale_dtype = torch.float32 if exact else torch.float64
        return cls(
            torch.tensor([scale], dtype=scale_dtype),
            torch.tensor([zero_point], dtype=torch.int64),
            dtype,
            quant_min,
            quant_max,
        )

    @property
    def is_per_tensor(self) -> bool:
        """True if one scale serves the whole tensor."""
        return self.scale.numel() == 1

    @property
    def scale_value(self) -> float:
        """The per-tensor scale."""
        return float(self.scale.reshape(-1)[0])

    @property
    def zero_point_value(self) -> int:
        """The per-tensor zero point."""
        return int(self.zero_point.reshape(-1)[0])

    @property
    def scales(self) -> list[float]:
        """All scales, flattened."""
        return [float(s) for s in self.scale.reshape(-1)]

    def largest_scales(self, axis: int) -> torch.Tensor:
        """The largest scale of each element of dimension `axis`; one if they are all the same."""
        if self.scale.dim() < 2:
            return self.scale.reshape(-1)
        return self.scale.movedim(axis, 0).flatten(1).amax(1)

    def recoded(self, codes: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, QParams]:
        """Codes of about the same reals for another scale, which is of full rank, and zero point 0.

        RNE(code * old / new) in float64, where the old codes have the zero point 0 too.
        """
        old = self.scale.double().reshape([1] * codes.dim()) if self.is_per_tensor else self.scale
        zeros = torch.zeros(scale.shape, dtype=torch.int64)
        ratios, _ = dataclasses.replace(
            self, scale=old.double() / scale.double(), zero_point=zeros
        )._expanded(codes)
        rounded = torch.round(codes.double() * ratios).to(codes.dtype)
        return rounded, dataclasses.replace(self, scale=scale, zero_point=zeros)

    def channel_axis(self, shape: Sequence[int]) -> int | None:
        """The dimension along which there is one scale per element; None if it is not per channel.

        A dimension of size one with one scale counts as per tensor, not per channel.
        """
        if self.scale.dim() != len(shape):
            return None
        axes = [i for i, size in enumerate(self.scale.shape) if size != 1]
        if len(axes) != 1 or self.scale.shape[axes[0]] != shape[axes[0]]:
            return None
        return axes[0]

    def same_grid(self, other: QParams) -> bool:
        """True if both describe the same codes for the same reals (clamp bounds aside)."""
        return (
            self.scale.shape == other.scale.shape
            and bool(torch.equal(self.scale.double(), other.scale.double()))
            and bool(torch.equal(self.zero_point.long(), other.zero_point.long()))
        )

    def equals(self, other: QParams) -> bool:
        """True for one grid, one dtype and the same clamp bounds."""
        bounds = (self.quant_min, self.quant_max) == (other.quant_min, other.quant_max)
        return bounds and self.dtype == other.dtype and self.same_grid(other)

    def shifted(self, by: int, dtype: torch.dtype) -> QParams:
        """The same reals for codes that are larger by `by`, in another dtype."""
        return QParams(
            self.scale, self.zero_point + by, dtype, self.quant_min + by, self.quant_max + by
        )

    def _expanded(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and zero point repeated to the shape of `tensor`."""
        scale, zero_point = self.scale, self.zero_point
        if self.is_per_tensor:
            return scale.reshape([1] * tensor.dim()), zero_point.reshape([1] * tensor.dim())
        if scale.dim() != tensor.dim():
            raise ValueError(
                f"scale of rank {scale.dim()} for a tensor of rank {tensor.dim()}, "
                "supported: one element or full rank"
            )
        for i, (size, count) in enumerate(zip(tensor.shape, scale.shape, strict=True)):
            if size % count:
                raise ValueError(
                    f"dimension {i}: got {count} scales for {size} elements, supported: a divisor"
                )
            scale = scale.repeat_interleave(size // count, i)
            zero_point = zero_point.repeat_interleave(size // count, i)
        return scale, zero_point

    def dequantize(self, codes: torch.Tensor) -> torch.Tensor:
        """Scale * (codes - zero_point) in float32 (or float64), then as `self.dtype`."""
        scale, zero_point = self._expanded(codes)
        dtype = torch.promote_types(self.dtype, torch.float32)
        centred = (codes.to(torch.int64) - zero_point.to(torch.int64)).to(dtype)
        return (centred * scale.to(dtype)).to(self.dtype)

    def quantize(self, x: torch.Tensor) -> torch.Tensor:
        """clamp(round_half_even(x * f32(1 / scale)) + zero_point) as `self.dtype`; NaN -> zp."""
        scale, zero_point = self._expanded(x)
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        inverse = (1.0 / scale.double()).to(x.dtype)
        steps = torch.nan_to_num(torch.round(x * inverse), nan=0.0)
        codes = (steps + zero_point).clamp(self.quant_min, self.quant_max)
        return codes.to(self.dtype)

    def check(self, what: str) -> Reason | None:
        """A reason why the integer contract does not cover these parameters, else None."""
        for scale in self.scales:
            if not math.isfinite(scale) or scale <= 0 or not numerics.is_float32_scale(scale):
                return Reason(
                    "scale",
                    f"scale of {what}",
                    repr(scale),
                    "finite, > 0, normal, representable in float32",
                )
        return None


def to_signed(codes: torch.Tensor) -> torch.Tensor:
    """Uint8 codes as int8 codes: code and zero point less by 128 name the same reals."""
    return (codes.to(torch.int16) - BYTE_OFFSET).to(torch.int8)


def to_unsigned(codes: torch.Tensor) -> torch.Tensor:
    """Int8 codes as uint8 codes of the same reals."""
    return (codes.to(torch.int16) + BYTE_OFFSET).to(torch.uint8)
