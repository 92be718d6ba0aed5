# SPDX-License-Identifier: BSD-3-Clause
"""Tables, maximum, minimum and prelu as TOSA graphs; see tosa_ops.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tosa_serializer as ts
from tosa_graph import Array, Graph, Value

Case = dict[str, Any]


def lut(case: Case, out: tuple[int, ...]) -> Array:
    """TABLE; of int16, whose result is in 1/128, also RESCALE and CLAMP."""
    graph = Graph()
    if case["x"].dtype == np.int16:
        operands = [graph.input(case["x"].reshape(out)), graph.const(case["table"], "int16")]
        value = graph.op(ts.Op.TABLE, operands, out, "int32", "TableAttribute")
        q = graph.rescale(value, [2**30], [37], 0, 0, "int16")
        return graph.run(graph.clamp(q, case["lo"], case["hi"]))
    operands = [graph.input(case["x"].reshape(out)), graph.const(case["table"], "int8")]
    return graph.run(graph.op(ts.Op.TABLE, operands, out, "int8", "TableAttribute"))


def _extremum(op: Any, attribute: str) -> Callable[[Case, tuple[int, ...]], Array]:
    """Two RESCALEs to int32, MAXIMUM or MINIMUM, saturation, CLAMP; all of them commute."""

    def run(case: Case, out: tuple[int, ...]) -> Array:
        graph, terms = Graph(), []
        for k, array in enumerate(case["operands"]):
            x = graph.input(array.reshape((1,) * (len(out) - array.ndim) + array.shape))
            m, s, zp = (case[name][k] for name in ("multiplier", "shift", "zero_points"))
            terms.append(graph.rescale(x, [m], [s], zp, 0, "int32"))
        nan = ts.NanPropagationMode.PROPAGATE
        chosen = graph.op(op, terms, out, "int32", attribute, nan)
        q = graph.rescale(chosen, [2**30], [30], 0, case["zo"], case["dtype"])
        return graph.run(graph.clamp(q, case["lo"], case["hi"]))

    return run


def prelu(case: Case, out: tuple[int, ...]) -> Array:
    """Both branches by RESCALE, the one below zero per channel; GREATER_EQUAL and SELECT, CLAMP."""
    graph = Graph()
    x = graph.input(case["operands"][0].reshape(out))
    d = graph.rescale(x, [2**30], [30], case["zero_points"][0], 0, "int32")
    ones = (1,) * len(out)
    signs = np.where(case["negate"][1:], -1, 1).reshape((*ones[1:], -1))
    factors = [d, graph.const(signs, "int32"), graph.const([0], "int8")]
    turned = graph.op(ts.Op.MUL, factors, out, "int32", "MulAttribute")

    def branch(value: Value, entries: slice) -> Value:
        m, s = case["multiplier"][entries], case["shift"][entries]
        return graph.rescale(value, m, s, 0, case["zo"], case["dtype"])

    zero = graph.const([0], "int32", ones)
    above = graph.op(ts.Op.GREATER_EQUAL, [d, zero], out, "bool", "GreaterEqualAttribute")
    branches = [above, branch(d, slice(1)), branch(turned, slice(1, None))]
    q = graph.op(ts.Op.SELECT, branches, out, case["dtype"], "SelectAttribute")
    return graph.run(graph.clamp(q, case["lo"], case["hi"]))


OPERATORS: dict[str, Callable[[Case, tuple[int, ...]], Array]] = {
    "lut": lut,
    "maximum": _extremum(ts.Op.MAXIMUM, "MaximumAttribute"),
    "minimum": _extremum(ts.Op.MINIMUM, "MinimumAttribute"),
    "prelu": prelu,
}
