# SPDX-License-Identifier: BSD-3-Clause
"""The integer arithmetic of every operator, once, in exact integers.

This is the truth that the scalar C++ kernels, every vector kernel and the eager operators of the
dialect are compared with, bit for bit. Notation, as in docs/numerics.md:

    R(v; m, s) = (v * m + 2^(s - 1)) >> s          one rounding, ties towards +inf
    M(r)       = (m, s) of a real ratio r           `multiplier_from_ratio`
    C(v)       = min(max(v, lo), hi)                lo, hi: quant range cut by a fused activation
    RNE        = round half to even

Codes are integer tensors of any dtype; they are widened to int64 before anything is subtracted.
Convolution and linear accumulate in float64: every partial sum is an integer below
K * 2^16 * 2^8 (16-bit activations), so it is exact up to K = 2^29 elements, beyond any tensor here.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
MIN_SHIFT = 2
MAX_SHIFT = 62
# A scale and its reciprocal are both normal float32 numbers, so no target may flush either to 0.
MIN_SCALE = 2.0**-126
MAX_SCALE = 2.0**126


@dataclasses.dataclass(frozen=True)
class Multiplier:
    """R(v) = (v * multiplier + 2^(shift - 1)) >> shift; 0 <= multiplier < 2^31."""

    multiplier: int
    shift: int

    def __post_init__(self) -> None:
        if not 0 <= self.multiplier < 2**31:
            raise ValueError(f"multiplier: got {self.multiplier}, supported: [0, 2^31)")
        if not MIN_SHIFT <= self.shift <= MAX_SHIFT:
            raise ValueError(f"shift: got {self.shift}, supported: [{MIN_SHIFT}, {MAX_SHIFT}]")


def is_float32_scale(scale: float) -> bool:
    """Whether `scale` is a float32 number in [2^-126, 2^126] (hence finite, positive, normal)."""
    if not MIN_SCALE <= scale <= MAX_SCALE:  # false for NaN
        return False
    return bool(struct.unpack("<f", struct.pack("<f", scale))[0] == scale)


def multiplier_from_ratio(ratio: float) -> Multiplier:
    """M(ratio): ratio ~ multiplier * 2^-shift, multiplier in [2^30, 2^31) where the shift allows.

    Zero gives (0, 31). Below 2^-32 the shift stays at 62 and the multiplier loses bits, down to 0.
    Raises ValueError for NaN, infinity, negative ratios and ratios that need a shift below 2
    (about 2^29 and more).
    """
    if not math.isfinite(ratio) or ratio < 0:
        raise ValueError(f"scale ratio: got {ratio}, supported: finite and not negative")
    if ratio == 0:
        return Multiplier(0, 31)
    mantissa, exponent = math.frexp(ratio)
    multiplier = round(mantissa * 2**31)  # the product is exact; round() ties to even
    if multiplier == 2**31:
        multiplier //= 2
        exponent += 1
    shift = 31 - exponent
    if shift < MIN_SHIFT:
        raise ValueError(f"scale ratio: got {ratio}, supported: below 2^29 = {2**29}")
    if shift > MAX_SHIFT:
        multiplier >>= min(31, shift - MAX_SHIFT)
        shift = MAX_SHIFT
    return Multiplier(multiplier, shift)


def multipliers_from_ratios(ratios: Sequence[float]) -> list[Multiplier]:
    """M of each ratio, e.g. (s_x * s_w[c]) / s_o of every output channel."""
    return [multiplier_from_ratio(ratio) for ratio in ratios]


def average_multiplier(s_in: float, count: int, s_out: float) -> Multiplier:
    """M(s_in / (count * s_out)): the mean of `count` codes, rounded once."""
    return multiplier_from_ratio(s_in / (count * s_out))


def rescale(v: Tensor, m: Multiplier | Sequence[Multiplier], axis: int = -1) -> Tensor:
    """R(v; m, s), elementwise; a sequence holds one multiplier per element of dimension `axis`.

    v: integers in [-2^31, 2^31). Then |v * m| <= 2^62 - 2^31 and the rounding term is at most 2^61,
    so int64 cannot overflow. Returns int64. Raises ValueError for a v beyond int32.
    """
    v = v.to(torch.int64)
    if v.numel() and (int(v.min()) < INT32_MIN or int(v.max()) > INT32_MAX):
        raise ValueError(f"accumulator: got [{int(v.min())}, {int(v.max())}], supported: int32")
    if isinstance(m, Multiplier):
        return (v * m.multiplier + (1 << (m.shift - 1))) >> m.shift
    if len(m) != v.shape[axis]:
        raise ValueError(f"multipliers: got {len(m)}, expected {v.shape[axis]} along axis {axis}")
    shape = [1] * v.dim()
    shape[axis] = len(m)
    factor = torch.tensor([k.multiplier for k in m], dtype=torch.int64).reshape(shape)
    shift = torch.tensor([k.shift for k in m], dtype=torch.int64).reshape(shape)
    half = torch.ones_like(shift) << (shift - 1)
    return (v * factor + half) >> shift


def requantize(
    acc: Tensor,
    m: Multiplier | Sequence[Multiplier],
    zero_point: int,
    lo: int,
    hi: int,
    dtype: torch.dtype,
    axis: int = -1,
) -> Tensor:
    """C(zero_point + R(acc; m)) as `dtype`; acc as in `rescale`."""
    return (rescale(acc, m, axis) + zero_point).clamp(lo, hi).to(dtype)


def inverse_scale(scale: float) -> float:
    """f32(1 / scale): what the boundary quantize multiplies with."""
    return float(torch.tensor(1.0 / scale, dtype=torch.float32))


def quantize(
    x: Tensor, scale: float, zero_point: int, lo: int, hi: int, dtype: torch.dtype
) -> Tensor:
    """Boundary rule: C(zero_point + RNE(x * f32(1 / scale))), product and rounding in float32.

    The clamp happens in float, before the conversion, so +-inf and huge values reach the nearer
    end. NaN counts as real 0: the result is C(zero_point). lo - zero_point and hi - zero_point
    must be below 2^24 (exact in float32).
    """
    steps = torch.round(x.to(torch.float32) * torch.tensor(inverse_scale(scale)))
    steps = torch.where(torch.isnan(steps), torch.zeros_like(steps), steps)
    steps = steps.clamp(float(lo - zero_point), float(hi - zero_point))
    return (steps.to(torch.int64) + zero_point).to(dtype)


def dequantize(q: Tensor, scale: float, zero_point: int) -> Tensor:
    """f32(q - zero_point) * f32(scale), one float32 multiply."""
    centred = (q.to(torch.int64) - zero_point).to(torch.float32)
    return centred * torch.tensor(scale, dtype=torch.float32)


def quantize_bound(value: float, scale: float, zero_point: int) -> int:
    """zero_point + RNE(f32(value) * f32(1 / scale)): the code of a clamp bound, not clamped.

    The number of steps saturates at +-2^31, which also stands for an infinite bound. Raises
    ValueError for NaN.
    """
    if math.isnan(value):
        raise ValueError("clamp bound: got nan, supported: a number or an infinity")
    bound = torch.tensor(value, dtype=torch.float64).to(torch.float32)
    steps = float(torch.round(bound * torch.tensor(inverse_scale(scale))))
    return zero_point + int(max(-(2.0**31), min(2.0**31, steps)))


def activation_bounds(
    lo: int,
    hi: int,
    scale: float,
    zero_point: int,
    min_value: float | None,
    max_value: float | None,
) -> tuple[int, int]:
    """[lo, hi] cut by clamp(min_value, max_value) in the *output* quantization.

    C over the result equals quantize(clamp(x)): bounds outside [lo, hi] move to its ends, and
    min > max gives max, as torch.clamp does. relu is min_value = 0, max_value = None.
    """
    low, high = lo, hi
    if min_value is not None:
        low = min(max(lo, quantize_bound(min_value, scale, zero_point)), hi)
    if max_value is not None:
        high = max(min(hi, quantize_bound(max_value, scale, zero_point)), lo)
    return min(low, high), high


def conv2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    zx: int,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Tensor:
    """acc[n, o, i, j] = bias[o] + sum (x - zx) * w; a padded tap is real 0.

    x: codes [batch, in_c, in_h, in_w]; w: [out_c, in_c / groups, kernel_h, kernel_w] with the
    weight zero point already subtracted; bias: [out_c] at scale s_x * s_w, not folded; padding:
    (top, left, bottom, right). Returns int64 [batch, out_c, out_h, out_w]; `accumulator_fits`
    says whether it stays in int32.
    """
    top, left, bottom, right = padding
    centred = functional.pad((x.to(torch.int64) - zx).to(torch.float64), (left, right, top, bottom))
    acc = functional.conv2d(centred, w.to(torch.float64), None, stride, 0, dilation, groups)
    acc = acc.to(torch.int64)
    return acc if bias is None else acc + bias.to(torch.int64).reshape(-1, 1, 1)


def linear(x: Tensor, w: Tensor, bias: Tensor | None, zx: int) -> Tensor:
    """acc[..., o] = bias[o] + sum_k (x[..., k] - zx) * w[o, k]; x of any rank >= 1. int64."""
    centred = (x.to(torch.int64) - zx).to(torch.float64)
    acc = (centred @ w.to(torch.float64).t()).to(torch.int64)
    return acc if bias is None else acc + bias.to(torch.int64)


def add_step(sa: float, sb: float, bits: int = 8) -> float:
    """The scale of the sum of two terms: 2 * max(sa, sb) / 2^L, L = 20 (8 bits) or 12 (16)."""
    return 2 * max(sa, sb) / 2 ** {8: 20, 16: 12}[bits]


def add_multipliers(
    sa: float, sb: float, so: float, bits: int = 8
) -> tuple[Multiplier, Multiplier, Multiplier]:
    """(M(sa / si), M(sb / si), M(si / so)) with si = `add_step`.

    sa and sb may carry an alpha (then positive: the sign goes to `add`). Both operands then stay
    below 2^27, their sum below 2^28.
    """
    si = add_step(sa, sb, bits)
    return (
        multiplier_from_ratio(sa / si),
        multiplier_from_ratio(sb / si),
        multiplier_from_ratio(si / so),
    )


def add(
    a: Tensor,
    za: int,
    b: Tensor,
    zb: int,
    ma: Multiplier,
    mb: Multiplier,
    sign: int,
    mo: Multiplier,
    zo: int,
    lo: int,
    hi: int,
    dtype: torch.dtype,
) -> Tensor:
    """C(zo + R(R(a - za; ma) + sign * R(b - zb; mb); mo)); a and b broadcast; sign is 1 or -1."""
    if sign not in (1, -1):
        raise ValueError(f"sign: got {sign}, supported: 1, -1")
    term_a = rescale(a.to(torch.int64) - za, ma)
    term_b = rescale(b.to(torch.int64) - zb, mb)
    return requantize(term_a + sign * term_b, mo, zo, lo, hi, dtype)


def max_pool2d(
    x: Tensor,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    ceil_mode: bool,
) -> Tensor:
    """Largest code of each window, dtype of x; padding is the smallest code of the dtype.

    A dilated window can miss the input altogether; it then gives that smallest code.
    """
    pooled = functional.max_pool2d(
        x.to(torch.float64), kernel, stride, padding, dilation, ceil_mode
    )
    return pooled.clamp(min=torch.iinfo(x.dtype).min).to(x.dtype)


def _window_counts(
    size: int, out: int, kernel: int, stride: int, pad: int, include_pad: bool
) -> Tensor:
    """Elements of each of the `out` windows along one axis; what hangs over the padding is none."""
    start = torch.arange(out) * stride - pad
    end = (start + kernel).clamp(max=size + pad)
    return end - start if include_pad else end.clamp(max=size) - start.clamp(min=0)


def avg_pool2d(
    x: Tensor,
    z: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> tuple[Tensor, Tensor]:
    """Sum of (x - z) and divisor of each window, int64 [..., out_h, out_w] and [out_h, out_w].

    The divisor is torch's: elements inside the input, or inside input plus padding if
    `count_include_pad`, never what ceil_mode hangs over; or `divisor_override` (>= 1).
    """
    if divisor_override is not None and divisor_override < 1:
        raise ValueError(f"divisor_override: got {divisor_override}, supported: >= 1")
    centred = (x.to(torch.int64) - z).to(torch.float64)
    total = functional.avg_pool2d(centred, kernel, stride, padding, ceil_mode, divisor_override=1)
    total = total.to(torch.int64)
    out_h, out_w = total.shape[-2:]
    if divisor_override is not None:
        return total, torch.full((out_h, out_w), divisor_override, dtype=torch.int64)
    in_h, in_w = x.shape[-2:]
    rows = _window_counts(in_h, out_h, kernel[0], stride[0], padding[0], count_include_pad)
    columns = _window_counts(in_w, out_w, kernel[1], stride[1], padding[1], count_include_pad)
    return total, rows[:, None] * columns[None, :]


def adaptive_avg_pool2d(
    x: Tensor, z: int, output_size: tuple[int | None, int | None]
) -> tuple[Tensor, Tensor]:
    """As `avg_pool2d`; window i of an axis is [floor(i * in / out), ceil((i + 1) * in / out)).

    None keeps the size of that axis.
    """
    total = x.to(torch.int64) - z
    counts = []
    for axis, wanted in ((-2, output_size[0]), (-1, output_size[1])):
        size = total.shape[axis]
        out = size if wanted is None else wanted
        index = torch.arange(out)
        start = index * size // out
        end = ((index + 1) * size + out - 1) // out
        zero = torch.zeros_like(total.narrow(axis, 0, 1))
        prefix = torch.cat([zero, total.cumsum(axis)], axis)
        total = prefix.index_select(axis, end) - prefix.index_select(axis, start)
        counts.append(end - start)
    return total, counts[0][:, None] * counts[1][None, :]


def average(
    total: Tensor,
    divisor: Tensor,
    s_in: float,
    z_in: int,
    s_out: float,
    z_out: int,
    lo: int,
    hi: int,
    dtype: torch.dtype,
) -> Tensor:
    """Average of windows from their sums: total int64 of (x - z_in), divisor broadcastable to it.

    Same quantization in and out: C(z + rha(total / n)), rha = round half away from zero. Otherwise
    C(z_out + R(total; M(s_in / (n * s_out)))), one multiplier per distinct n.
    """
    if (s_in, z_in) == (s_out, z_out):
        magnitude = (2 * total.abs() + divisor) // (2 * divisor)
        return (total.sign() * magnitude + z_out).clamp(lo, hi).to(dtype)
    result = torch.empty_like(total)
    divisor = divisor.expand_as(total)
    for count in sorted(set(divisor.flatten().tolist())):
        chosen = divisor == count
        result[chosen] = rescale(total[chosen], average_multiplier(s_in, count, s_out))
    return (result + z_out).clamp(lo, hi).to(dtype)


def mean(
    x: Tensor,
    zi: int,
    axes: Sequence[int],
    keepdim: bool,
    m: Multiplier,
    zo: int,
    lo: int,
    hi: int,
    dtype: torch.dtype,
) -> Tensor:
    """C(zo + R(sum over `axes` of (x - zi); m)), m = `average_multiplier(s_i, N, s_o)`.

    Axes may be negative and in any order; none means all of them.
    """
    dims = sorted({axis % x.dim() for axis in axes}) or list(range(x.dim()))
    total = (x.to(torch.int64) - zi).sum(dims, keepdim=keepdim)
    return requantize(total, m, zo, lo, hi, dtype)


def fold_bias(bias: Tensor | None, weight: Tensor, zx: int) -> Tensor:
    """bias[o] - zx * sum(weight[o]), wrapping to int32; then acc = folded + sum x * w, wrapping.

    Wrapping is harmless because the true accumulator fits int32 (`accumulator_fits`). Padded taps
    must then contribute zx * w.
    """
    folded = -zx * weight.to(torch.int64).flatten(1).sum(1)
    if bias is not None:
        folded = folded + bias.to(torch.int64)
    return (((folded - INT32_MIN) & 0xFFFFFFFF) + INT32_MIN).to(torch.int32)


def accumulator_fits(weight: Tensor, bias: Tensor | None, zx: int) -> Tensor:
    """Per output channel: |b| + sum |w| * max(127 - zx, zx + 128) <= 2^31 - 1 (int8 activations).

    weight: [out_c, ...], zero point subtracted; bias: int32 [out_c] or None; returns bool [out_c].
    A channel that fails could overflow int32, which no kernel detects.
    """
    bound = weight.to(torch.int64).abs().flatten(1).sum(1) * max(127 - zx, zx + 128)
    if bias is not None:
        bound = bound + bias.to(torch.int64).abs()
    return bound <= INT32_MAX


def quantize_bias(bias: Tensor, s_x: float, s_w: Sequence[float]) -> Tensor:
    """RNE(bias[o] / (s_x * s_w[o])) in float64, saturated to +-(2^31 - 1); int32 [out_c].

    s_w has one entry, or one per channel. Raises ValueError for a bias that is NaN.
    """
    if bool(torch.isnan(bias).any()):
        raise ValueError("bias: got nan, supported: numbers")
    scale = s_x * torch.tensor(s_w, dtype=torch.float64)
    steps = torch.round(bias.to(torch.float64) / scale)
    return steps.clamp(float(-INT32_MAX), float(INT32_MAX)).to(torch.int32)
