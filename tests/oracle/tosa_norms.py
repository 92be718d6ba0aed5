# SPDX-License-Identifier: BSD-3-Clause
"""softmax and norms composed of 32-bit TOSA operators, along the last dimension of [rows, N].

Runs in the reference model's own virtual environment.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tosa_serializer as ts
from tosa_graph import Array, Graph, Value

Case = dict[str, Any]
_ROOTS = [min(32767, round(32767 / math.sqrt(max(i / 128, 1)))) for i in range(513)]


class _Integers:
    """Operators on int32 values of one graph; the right operand may be a number."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def _value(self, given: Value | int | Array) -> Value:
        if isinstance(given, Value):
            return given
        array = np.asarray(given, np.int32)
        return self.graph.const(array, "int32", array.shape if array.ndim == 2 else (1, array.size))

    def _binary(
        self, op: Any, name: str, a: Value | int, b: Value | int | Array, *values: Any
    ) -> Value:
        operands = [self._value(a), self._value(b)]
        shape = tuple(max(pair) for pair in zip(operands[0].shape, operands[1].shape, strict=True))
        if op == ts.Op.MUL:
            operands.append(self.graph.const([0], "int8"))
        return self.graph.op(op, operands, shape, "int32", f"{name}Attribute", *values)

    def add(self, a: Value, b: Value | int | Array) -> Value:
        return self._binary(ts.Op.ADD, "Add", a, b)

    def sub(self, a: Value | int, b: Value | int) -> Value:
        return self._binary(ts.Op.SUB, "Sub", a, b)

    def mul(self, a: Value, b: Value | int | Array) -> Value:
        return self._binary(ts.Op.MUL, "Mul", a, b)

    def div(self, a: int, b: Value) -> Value:
        return self._binary(ts.Op.INTDIV, "IntDiv", a, b)

    def left(self, a: Value, b: Value) -> Value:
        return self._binary(ts.Op.LOGICAL_LEFT_SHIFT, "LogicalLeftShift", a, b)

    def right(self, a: Value, b: Value | int, rounded: bool) -> Value:
        """Arithmetic shift; `rounded` adds half of the last place first."""
        op = ts.Op.ARITHMETIC_RIGHT_SHIFT
        return self._binary(op, "ArithmeticRightShift", a, b, rounded)

    def even(self, a: Value) -> Value:
        return self._binary(ts.Op.BITWISE_AND, "BitwiseAnd", a, -2)

    def zeros(self, a: Value) -> Value:
        """Leading zeros."""
        return self.graph.op(ts.Op.CLZ, [a], a.shape, "int32", "ClzAttribute")

    def sum(self, a: Value) -> Value:
        shape = (a.shape[0], 1)
        return self.graph.op(ts.Op.REDUCE_SUM, [a], shape, "int32", "ReduceSumAttribute", 1)

    def table(self, a: Value, entries: Any) -> Value:
        """TABLE of 513 entries at an int32 value that fits int16; result in 1/128."""
        narrow = self.graph.op(ts.Op.CAST, [a], a.shape, "int16", "CastAttribute")
        operands = [narrow, self.graph.const(entries, "int16")]
        return self.graph.op(ts.Op.TABLE, operands, a.shape, "int32", "TableAttribute")

    def widened(self, x: Value, zero_point: int) -> Value:
        return self.graph.rescale(x, [2**30], [30], zero_point, 0, "int32")


def _finish(graph: Graph, acc: Value, case: Case) -> Array:
    q = graph.rescale(acc, case["multiplier"], case["shift"], 0, case["zo"], "int8")
    return graph.run(graph.clamp(q, case["lo"], case["hi"]))


def softmax(case: Case, out: tuple[int, ...]) -> Array:
    """REDUCE_MAX, TABLE (entry d at 128 * (d - 256): no interpolation), REDUCE_SUM, CLZ, INTDIV."""
    graph = Graph()
    n = _Integers(graph)
    x = graph.input(case["x"])
    nan = ts.NanPropagationMode.PROPAGATE
    shape = (x.shape[0], 1)
    largest = graph.op(ts.Op.REDUCE_MAX, [x], shape, "int8", "ReduceMaxAttribute", 1, nan)
    d = n.sub(n.widened(largest, 0), n.widened(x, 0))
    entries = [*case["constants"][0].tolist(), *[0] * 257]
    e = n.right(n.table(n.mul(n.sub(d, 256), 128), entries), 7, False)
    total = n.sum(e)
    h = n.zeros(total)
    normalized = n.right(n.left(total, n.sub(h, 1)), 15, True)
    product = n.mul(e, n.div(2**31 - 1, normalized))
    share = n.right(n.right(product, 8, False), n.sub(31, h), True)
    return _finish(graph, graph.limit(share, 0, 255), case)


def layer_norm(case: Case, out: tuple[int, ...]) -> Array:
    """layer_norm, and rms_norm, which subtracts the zero point instead of the mean."""
    graph = Graph()
    n = _Integers(graph)
    x = graph.input(case["x"])
    count = x.shape[1]
    t = max(1, math.ceil(math.log2(count)))
    if case["kind"] == "rms_norm":
        d = n.mul(n.widened(x, case["zx"]), 128)
    else:
        wide = n.widened(x, 0)
        mean = graph.rescale(n.sum(wide), *case["mean"], 0, 0, "int32")
        d = n.sub(n.mul(wide, 128), mean)
    a = n.add(n.sum(n.right(n.mul(d, d), t, True)), case["epsilon"])
    h = n.even(n.sub(n.zeros(a), 1))
    place = n.sub(n.right(n.left(a, h), 15, False), 32768)
    r = n.right(n.table(place, _ROOTS), 7, True)
    v = n.sub(19, n.right(h, 1, False))
    u = graph.limit(n.right(n.mul(d, r), v, True), -32768, 32767)
    gamma, beta = [*case["constants"], None][:2]
    acc = n.mul(u, 32767 if gamma is None else gamma)
    return _finish(graph, acc if beta is None else n.add(acc, beta), case)
