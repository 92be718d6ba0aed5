# SPDX-License-Identifier: BSD-3-Clause
"""Each operator as a TOSA graph, from the plain description of a case (`Built.tosa`).

Runs in the reference model's own virtual environment. Images are NHWC, as TOSA's are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tosa_elementwise
import tosa_moves
import tosa_serializer as ts
from tosa_graph import Array, Graph, Value
from tosa_norms import layer_norm, softmax

Case = dict[str, Any]


def _fit(x: Array, axis: int, out: int, kernel: int, stride: int, before: int) -> tuple[Array, int]:
    """(input, padding after it) such that `out` windows end exactly at the padded end.

    TOSA wants no remainder, so what no window reads is cut off; what hangs over the end (ceil_mode)
    is padding, which TOSA never counts either.
    """
    after = (out - 1) * stride + kernel - before - x.shape[axis]
    if after < 0:
        x = x.take(range(x.shape[axis] + after), axis)
    return x, max(after, 0)


def _finish(graph: Graph, acc: Value, case: Case) -> Array:
    """RESCALE to int8 (or the case's dtype) and CLAMP."""
    dtype = case.get("dtype", "int8")
    q = graph.rescale(acc, case["multiplier"], case["shift"], 0, case["zo"], dtype)
    return graph.run(graph.clamp(q, case["lo"], case["hi"]))


def _zeros(bias: Array | None, case: Case, count: int) -> Array:
    """The bias, or zeros of its dtype."""
    return np.zeros(count, np.int64 if _is_wide(case) else np.int32) if bias is None else bias


def _is_wide(case: Case) -> bool:
    return bool(case.get("dtype") == "int16")


def _accumulator(case: Case) -> tuple[str, Any]:
    """Of sums of products: of 32 bits, or 48 of int16 activations."""
    return ("int48", ts.DType.INT48) if _is_wide(case) else ("int32", ts.DType.INT32)


def _weight_dtype(case: Case) -> str:
    return f"int{case.get('weight_bits', 8)}"


def _convolve(
    graph: Graph,
    op: Any,
    x: Array,
    w: Array,
    bias: Array,
    zx: int,
    case: Case,
    out: tuple[int, ...],
) -> Value:
    """CONV2D (w OHWI) or DEPTHWISE_CONV2D (w HWCM) to accumulators [N, *out, O]."""
    depthwise = op == ts.Op.DEPTHWISE_CONV2D
    kernel = w.shape[:2] if depthwise else w.shape[1:3]
    out_c = w.shape[2] * w.shape[3] if depthwise else w.shape[0]
    pads = []
    for axis in (0, 1):
        extent = case["dilation"][axis] * (kernel[axis] - 1) + 1
        before = case["padding"][axis]
        x, after = _fit(x, axis + 1, out[axis], extent, case["stride"][axis], before)
        pads += [before, after]
    name, dtype = _accumulator(case)
    operands = [
        graph.input(x),
        graph.const(w, _weight_dtype(case)),
        graph.const(bias, name),
        graph.const([zx], x.dtype.name),
        graph.const([0], _weight_dtype(case)),
    ]
    attribute = "DepthwiseConv2dAttribute" if depthwise else "Conv2dAttribute"
    shape = (x.shape[0], *out, out_c)
    strides = (list(case["stride"]), list(case["dilation"]))
    return graph.op(op, operands, shape, name, attribute, pads, *strides, False, dtype)


def conv2d(case: Case, out: tuple[int, ...]) -> Array:
    """A group at a time; DEPTHWISE_CONV2D when each group has one input channel."""
    x, w, groups = case["x"], case["w"], case["groups"]
    out_c = w.shape[0]
    bias = _zeros(case["bias"], case, out_c)
    if groups > 1 and w.shape[3] == 1:
        hwcm = w[..., 0].transpose(1, 2, 0).reshape(*w.shape[1:3], groups, out_c // groups)
        graph = Graph()
        op = ts.Op.DEPTHWISE_CONV2D
        return _finish(graph, _convolve(graph, op, x, hwcm, bias, case["zx"], case, out[1:3]), case)

    def convolve(part: Case) -> Array:
        graph = Graph()
        operands = (part["x"], part["w"], part["bias"], part["zx"])
        acc = _convolve(graph, ts.Op.CONV2D, *operands, part, out[1:3])
        return _finish(graph, acc, part)

    return _by_group(case, convolve)


def _by_group(case: Case, convolve: Callable[[Case], Array]) -> Array:
    """A group at a time, on its channels of x, weight, bias and multipliers."""
    w, groups = case["w"], case["groups"]
    out_c = w.shape[0]
    bias = _zeros(case["bias"], case, out_c)
    parts = []
    for group in range(groups):
        channels = slice(group * out_c // groups, (group + 1) * out_c // groups)
        inputs = slice(group * w.shape[-1], (group + 1) * w.shape[-1])
        part = {**case, "x": case["x"][..., inputs], "w": w[channels], "bias": bias[channels]}
        if len(case["multiplier"]) > 1:
            part["multiplier"] = case["multiplier"][channels]
            part["shift"] = case["shift"][channels]
        parts.append(convolve(part))
    return np.concatenate(parts, axis=-1)


def conv1d(case: Case, out: tuple[int, ...]) -> Array:
    """A conv2d of images of height 1."""
    before, after = case.get("padding", (0, 0))
    image = {
        **case,
        "x": case["x"][:, None],
        "w": case["w"][:, None],
        "stride": (1, *case.get("stride", (1,))),
        "dilation": (1, *case.get("dilation", (1,))),
        "padding": (0, before, 0, after),
    }
    return conv2d(image, (out[0], 1, *out[1:])).reshape(out)


def conv3d(case: Case, out: tuple[int, ...]) -> Array:
    """CONV3D, a group at a time."""

    def convolve(part: Case) -> Array:
        graph, x, w, pads = Graph(), part["x"], part["w"], []
        stride, dilation = part.get("stride", (1, 1, 1)), part.get("dilation", (1, 1, 1))
        for axis in range(3):
            extent = dilation[axis] * (w.shape[axis + 1] - 1) + 1
            before = part.get("padding", (0,) * 6)[2 * axis]
            x, after = _fit(x, axis + 1, out[axis + 1], extent, stride[axis], before)
            pads += [before, after]
        values = (pads, list(stride), list(dilation), False, _accumulator(case)[1])
        acc = _dot(graph, ts.Op.CONV3D, {**part, "x": x}, out[:4], "Conv3dAttribute", *values)
        return _finish(graph, acc, part)

    return _by_group(case, convolve)


def conv_transpose2d(case: Case, out: tuple[int, ...]) -> Array:
    """TRANSPOSE_CONV2D, which has no dilation, a group at a time."""

    def convolve(part: Case) -> Array:
        graph = Graph()
        sides = part.get("padding", (0,) * 4)
        further = part.get("output_padding", (0, 0))
        pads = [-sides[0], further[0] - sides[1], -sides[2], further[1] - sides[3]]
        values = (pads, list(part.get("stride", (1, 1))), False, _accumulator(case)[1])
        name = "TransposeConv2dAttribute"
        acc = _dot(graph, ts.Op.TRANSPOSE_CONV2D, part, out[:3], name, *values)
        return _finish(graph, acc, part)

    return _by_group(case, convolve)


def _dot(
    graph: Graph, op: Any, part: Case, places: tuple[int, ...], attribute: str, *values: Any
) -> Value:
    """A convolution of one group to accumulators [*places, O]."""
    name = _accumulator(part)[0]
    operands = [
        graph.input(part["x"]),
        graph.const(part["w"], "int8"),
        graph.const(part["bias"], name),
        graph.const([part["zx"]], part["x"].dtype.name),
        graph.const([0], "int8"),
    ]
    return graph.op(op, operands, (*places, len(part["w"])), name, attribute, *values)


def bmm(case: Case, out: tuple[int, ...]) -> Array:
    """MATMUL with both zero points."""
    graph = Graph()
    a, b = case["operands"]
    operands = [graph.input(np.repeat(x, out[0] // len(x), 0)) for x in (a, b)]
    operands += [graph.const([zero_point], a.dtype.name) for zero_point in case["zero_points"]]
    acc = graph.op(ts.Op.MATMUL, operands, out, _accumulator(case)[0], "MatMulAttribute")
    return _finish(graph, acc, case)


def linear(case: Case, out: tuple[int, ...]) -> Array:
    """An odd number of rows of int8 as MATMUL + ADD, else a 1x1 CONV2D, as with 4-bit weights."""
    w = case["w"]
    x = case["x"].reshape(-1, w.shape[1])
    bias = _zeros(case["bias"], case, len(w))
    graph = Graph()
    if len(x) % 2 and not _is_wide(case) and _weight_dtype(case) == "int8":
        operands = [graph.input(x[None]), graph.input(w.T[None])]
        operands += [graph.const([case["zx"]], "int8"), graph.const([0], "int8")]
        shape = (1, len(x), len(w))
        acc = graph.op(ts.Op.MATMUL, operands, shape, "int32", "MatMulAttribute")
        terms = [acc, graph.const(bias[None, None], "int32")]
        acc = graph.op(ts.Op.ADD, terms, shape, "int32", "AddAttribute")
    else:
        plain = {**case, "padding": (0, 0), "stride": (1, 1), "dilation": (1, 1)}
        x, w = x.reshape(1, 1, *x.shape), w[:, None, None]
        size = (1, x.shape[2])
        acc = _convolve(graph, ts.Op.CONV2D, x, w, bias, case["zx"], plain, size)
    return _finish(graph, acc, case).reshape(out)


def rescale(case: Case, out: tuple[int, ...]) -> Array:
    """RESCALE of int32 accumulators, one multiplier each."""
    graph = Graph()
    return _finish(graph, graph.input(case["acc"].reshape(out)), case)


def add(case: Case, out: tuple[int, ...]) -> Array:
    """Two RESCALEs to int32, ADD or SUB, RESCALE to int8."""
    graph = Graph()
    terms = []
    for position, (name, zp) in enumerate((("a", "za"), ("b", "zb"))):
        array = case[name]
        x = graph.input(array.reshape((1,) * (len(out) - array.ndim) + array.shape))
        m, s = [case["multiplier"][position]], [case["shift"][position]]
        terms.append(graph.rescale(x, m, s, case[zp], 0, "int32"))
    op, attribute = (ts.Op.ADD, "AddAttribute")
    if case["sign"] < 0:
        op, attribute = (ts.Op.SUB, "SubAttribute")
    total = graph.op(op, terms, out, "int32", attribute)
    final = {**case, "multiplier": case["multiplier"][2:], "shift": case["shift"][2:]}
    return _finish(graph, total, final)


def mul(case: Case, out: tuple[int, ...]) -> Array:
    """Zero points taken off by RESCALE, MUL, RESCALE to int8."""
    graph = Graph()
    factors = []
    for array, zp in zip(case["operands"], case["zero_points"], strict=True):
        x = graph.input(array.reshape((1,) * (len(out) - array.ndim) + array.shape))
        factors.append(graph.rescale(x, [2**30], [30], zp, 0, "int32"))
    operands = [*factors, graph.const([0], "int8")]
    return _finish(graph, graph.op(ts.Op.MUL, operands, out, "int32", "MulAttribute"), case)


def requantize(case: Case, out: tuple[int, ...]) -> Array:
    """RESCALE between int8 and int16 in any way, CLAMP."""
    del out
    graph = Graph()
    x, dtype = graph.input(case["x"]), case["dtype"]
    q = graph.rescale(x, case["multiplier"], case["shift"], case["zx"], case["zo"], dtype)
    return graph.run(graph.clamp(q, case["lo"], case["hi"]))


def max_pool2d(case: Case, out: tuple[int, ...]) -> Array:
    """MAX_POOL2D, then RESCALE if the quantization differs, CLAMP."""
    graph = Graph()
    x, pads, dtype = case["x"], [], case["dtype"]
    for axis in (0, 1):
        before = case["padding"][axis]
        kernel, stride = case["kernel"][axis], case["stride"][axis]
        x, after = _fit(x, axis + 1, out[axis + 1], kernel, stride, before)
        pads += [before, after]
    values = (list(case["kernel"]), list(case["stride"]), pads, ts.NanPropagationMode.PROPAGATE)
    value = graph.op(ts.Op.MAX_POOL2D, [graph.input(x)], out, dtype, "MaxPool2dAttribute", *values)
    if case["multiplier"]:
        m, s = case["multiplier"], case["shift"]
        value = graph.rescale(value, m, s, case["zx"], case["zo"], dtype)
    return graph.run(graph.clamp(value, case["lo"], case["hi"]))


def _average_windows(
    case: Case,
    x: Array,
    kernel: list[int],
    stride: list[int],
    pads: list[int],
    out: tuple[int, ...],
) -> Array:
    """AVG_POOL2D (equal quantization), CLAMP."""
    graph = Graph()
    dtype = case["dtype"]
    zero = [graph.const([case["zx"]], dtype), graph.const([case["zo"]], dtype)]
    values = (kernel, stride, pads, ts.DType.INT32)
    q = graph.op(
        ts.Op.AVG_POOL2D, [graph.input(x), *zero], out, dtype, "AvgPool2dAttribute", *values
    )
    return graph.run(graph.clamp(q, case["lo"], case["hi"]))


def _average_sums(case: Case, total: Array, divisor: Array) -> Array:
    """Codes from window sums [N, H, W, C]: RESCALE per divisor, or an exact INTDIV.

    Round half away from zero of s / n is (2 * s + n * sign(s)) / (2 * n), truncated.
    """
    flat = np.ascontiguousarray(total.transpose(0, 3, 1, 2)).reshape(-1, divisor.size)
    graph = Graph()
    sums = graph.input(flat)
    if case["by_count"]:
        pairs = [case["by_count"][n] for n in divisor.flatten().tolist()]
        per_position = {"multiplier": [m for m, _ in pairs], "shift": [s for _, s in pairs]}
        q = _finish(graph, sums, {**case, **per_position})
    else:
        counts = graph.const(divisor.reshape(1, -1), "int32")
        twice = graph.const(2 * divisor.reshape(1, -1), "int32")
        shift = graph.const([0], "int8")
        shape = flat.shape
        double = graph.op(ts.Op.ADD, [sums, sums], shape, "int32", "AddAttribute")
        sign = [graph.limit(sums, -1, 1), counts, shift]
        half = graph.op(ts.Op.MUL, sign, shape, "int32", "MulAttribute")
        top = graph.op(ts.Op.ADD, [double, half], shape, "int32", "AddAttribute")
        mean = graph.op(ts.Op.INTDIV, [top, twice], shape, "int32", "IntDivAttribute")
        q = _finish(graph, mean, {**case, "multiplier": [2**30], "shift": [30]})
    n, h, w, c = total.shape
    return q.reshape(n, c, h, w).transpose(0, 2, 3, 1)


def avg_pool2d(case: Case, out: tuple[int, ...]) -> Array:
    """AVG_POOL2D where TOSA can say it, else a DEPTHWISE_CONV2D of ones and the division."""
    x, kernel, stride = case["x"], list(case["kernel"]), list(case["stride"])
    padding = list(case["padding"])
    if case["include_pad"] and not case["override"]:  # explicit padding counts: make it input
        x = np.pad(x, [(0, 0), *((p, p) for p in padding), (0, 0)], constant_values=case["zx"])
        padding = [0, 0]
    if not case["by_count"] and not case["override"]:
        pads = []
        for axis in (0, 1):
            args = (out[axis + 1], kernel[axis], stride[axis], padding[axis])
            x, after = _fit(x, axis + 1, *args)
            pads += [padding[axis], after]
        return _average_windows(case, x, kernel, stride, pads, out)
    channels = x.shape[3]
    graph = Graph()
    ones = np.ones((*kernel, channels, 1), np.int8)
    zero = np.zeros(channels, np.int32)
    plain = {"padding": padding, "stride": stride, "dilation": (1, 1)}
    op = ts.Op.DEPTHWISE_CONV2D
    acc = _convolve(graph, op, x, ones, zero, case["zx"], plain, (out[1], out[2]))
    return _average_sums(case, graph.run(acc), case["divisor"])


def adaptive_avg_pool2d(case: Case, out: tuple[int, ...]) -> Array:
    """One window at a time."""
    x = case["x"]
    result = np.empty(out, case["dtype"])
    rows, columns = out[1], out[2]
    for i in range(rows):
        for j in range(columns):
            top, bottom = i * x.shape[1] // rows, -(-(i + 1) * x.shape[1] // rows)
            left, right = j * x.shape[2] // columns, -(-(j + 1) * x.shape[2] // columns)
            window = x[:, top:bottom, left:right]
            size = [bottom - top, right - left]
            shape = (out[0], 1, 1, out[3])
            if case["by_count"]:
                graph = Graph()
                total = graph.run(_sum(graph, window, case["zx"], [1, 2]))
                part = _average_sums(case, total, np.array([[size[0] * size[1]]], np.int32))
            else:
                part = _average_windows(case, window, size, [1, 1], [0, 0, 0, 0], shape)
            result[:, i : i + 1, j : j + 1] = part
    return result


def _sum(graph: Graph, x: Array, zx: int, axes: list[int]) -> Value:
    """REDUCE_SUM of x - zx over `axes`, kept as size one."""
    value = graph.rescale(graph.input(x), [2**30], [30], zx, 0, "int32")
    for axis in axes:
        shape = tuple(1 if i == axis else size for i, size in enumerate(value.shape))
        value = graph.op(ts.Op.REDUCE_SUM, [value], shape, "int32", "ReduceSumAttribute", axis)
    return value


def mean(case: Case, out: tuple[int, ...]) -> Array:
    """REDUCE_SUM over each axis, RESCALE, CLAMP."""
    graph = Graph()
    return _finish(graph, _sum(graph, case["x"], case["zx"], case["axes"]), case).reshape(out)


def extremum(case: Case, out: tuple[int, ...]) -> Array:
    """REDUCE_MAX or REDUCE_MIN over each axis, RESCALE, CLAMP."""
    graph = Graph()
    name = "Max" if case["kind"] == "amax" else "Min"
    value = graph.input(case["x"])
    for axis in case["axes"]:
        value = _extreme(graph, value, axis, name)
    scale = (case["multiplier"], case["shift"], case["zx"], case["zo"])
    q = graph.rescale(value, *scale, case["dtype"])
    return graph.run(graph.clamp(q, case["lo"], case["hi"])).reshape(out)


def _extreme(graph: Graph, value: Value, axis: int, name: str) -> Value:
    shape = tuple(1 if i == axis else size for i, size in enumerate(value.shape))
    op = ts.Op.REDUCE_MAX if name == "Max" else ts.Op.REDUCE_MIN
    nan = ts.NanPropagationMode.PROPAGATE
    return graph.op(op, [value], shape, value.dtype, f"Reduce{name}Attribute", axis, nan)


def argmax(case: Case, out: tuple[int, ...]) -> Array:
    """ARGMAX; over all elements of the flattened tensor without an axis."""
    x, axis = case["x"], case["axis"]
    if axis is None:
        x, axis = x.reshape(-1), 0
    graph = Graph()
    shape = tuple(size for i, size in enumerate(x.shape) if i != axis)
    nan = ts.NanPropagationMode.PROPAGATE
    value = graph.op(ts.Op.ARGMAX, [graph.input(x)], shape, "int32", "ArgMaxAttribute", axis, nan)
    return graph.run(value).astype(np.int64).reshape(out)


OPERATORS: dict[str, Callable[[Case, tuple[int, ...]], Array]] = {
    "rescale": rescale,
    "conv2d": conv2d,
    "conv1d": conv1d,
    "conv3d": conv3d,
    "conv_transpose2d": conv_transpose2d,
    "bmm": bmm,
    "linear": linear,
    "linear_w4": linear,
    "conv2d_w4": conv2d,
    "add": add,
    "requantize": requantize,
    "mul": mul,
    "max_pool2d": max_pool2d,
    "avg_pool2d": avg_pool2d,
    "adaptive_avg_pool2d": adaptive_avg_pool2d,
    "mean": mean,
    **tosa_elementwise.OPERATORS,
    **tosa_moves.OPERATORS,
    "sum": mean,
    "amax": extremum,
    "amin": extremum,
    "argmax": argmax,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": layer_norm,
}
