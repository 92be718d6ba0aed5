# SPDX-License-Identifier: BSD-3-Clause
"""A small TOSA graph builder. Runs in the reference model's own virtual environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_reference_model
import tosa_serializer as ts

Array = npt.NDArray[Any]

DTYPES = {
    "int4": ts.DType.INT4,  # held in int8 arrays
    "int8": ts.DType.INT8,
    "int16": ts.DType.INT16,
    "int32": ts.DType.INT32,
    "int48": ts.DType.INT48,
    "int64": ts.DType.SHAPE,
    "bool": ts.DType.BOOL,
}


class OutsideTosaError(Exception):
    """The reference model calls the graph unpredictable: TOSA defines no result for it."""


class Value:
    """A tensor of the graph."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        self.name, self.shape, self.dtype = name, tuple(shape), dtype


class Graph:
    """Collects operators in order; every value is named after its position."""

    def __init__(self) -> None:
        self._graph = ts.TosaSerializer(
            "", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False
        )
        self._inputs: list[Array] = []
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def input(self, array: Array) -> Value:
        """A graph input holding `array`."""
        name, dtype = self._name(), array.dtype.name
        self._graph.addInputTensor(
            ts.TosaSerializerTensor(name, list(array.shape), DTYPES[dtype], data=None)
        )
        self._inputs.append(np.ascontiguousarray(array))
        return Value(name, array.shape, dtype)

    def const(self, values: Any, dtype: str, shape: tuple[int, ...] | None = None) -> Value:
        """A constant; a plain list becomes a vector."""
        held = {"int48": "int64", "int4": "int8"}
        array = np.array(values, held.get(dtype, dtype))
        wanted = array.shape if shape is None else shape
        name = self._name()
        self._graph.addConst(list(wanted), DTYPES[dtype], array.flatten(), name=name)
        return Value(name, wanted, dtype)

    def op(
        self,
        op: Any,
        inputs: list[Value],
        shape: tuple[int, ...],
        dtype: str,
        attribute: str,
        *values: Any,
    ) -> Value:
        """Append an operator with one output."""
        name = self._name()
        attributes = ts.TosaSerializerAttribute()
        getattr(attributes, attribute)(*values)
        block = self._graph.currRegion.currBasicBlock
        block.addTensor(name, [int(size) for size in shape], DTYPES[dtype])
        self._graph.addOperator(op, [v.name for v in inputs], [name], attributes)
        return Value(name, shape, dtype)

    def rescale(
        self,
        x: Value,
        multiplier: list[int],
        shift: list[int],
        zp_in: int,
        zp_out: int,
        dtype: str,
    ) -> Value:
        """RESCALE, rounded once; several multipliers run along the last dimension.

        They have 32 bits; those of int48 have 16, for which the given ones end in 16 zeros.
        """
        wide = x.dtype != "int48"
        if not wide:
            assert all(m % 2**16 == 0 for m in multiplier)
            multiplier = [m >> 16 for m in multiplier]
            shift = [s - 16 for s in shift]
        operands = [
            x,
            self.const(multiplier, "int32" if wide else "int16"),
            self.const(shift, "int8"),
            self.const([zp_in], x.dtype),
            self.const([zp_out], dtype),
        ]
        single = ts.RoundingMode.SINGLE_ROUND
        values = (wide, single, len(multiplier) > 1, False, False)
        return self.op(ts.Op.RESCALE, operands, x.shape, dtype, "RescaleAttribute", *values)

    def clamp(self, x: Value, lo: int, hi: int) -> Value:
        """CLAMP of int8 or int16; left out when it cannot change a code."""
        if (lo, hi) == (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max):
            return x
        low, high = (list(np.array([v], x.dtype).view(np.uint8)) for v in (lo, hi))
        nan = ts.NanPropagationMode.PROPAGATE
        return self.op(ts.Op.CLAMP, [x], x.shape, x.dtype, "ClampAttribute", low, high, nan)

    def limit(self, x: Value, lo: int, hi: int) -> Value:
        """MINIMUM and MAXIMUM with constants (CLAMP has no int32)."""
        nan = ts.NanPropagationMode.PROPAGATE
        ones = (1,) * len(x.shape)
        for op, name, bound in ((ts.Op.MAXIMUM, "Maximum", lo), (ts.Op.MINIMUM, "Minimum", hi)):
            operands = [x, self.const([bound], x.dtype, ones)]
            x = self.op(op, operands, x.shape, x.dtype, f"{name}Attribute", nan)
        return x

    def run(self, output: Value) -> Array:
        """Execute; raises OutsideTosaError for UNPREDICTABLE, RuntimeError for an invalid graph."""
        tensors = self._graph.currRegion.currBasicBlock.tensors
        self._graph.addOutputTensor(tensors[output.name])
        results, status = tosa_reference_model.run(self._graph.serialize(), self._inputs)
        if status == tosa_reference_model.GraphStatus.TOSA_UNPREDICTABLE:
            raise OutsideTosaError
        if status != tosa_reference_model.GraphStatus.TOSA_VALID:
            raise RuntimeError(f"invalid TOSA graph: {status}")
        result = np.asarray(results[0])
        if result.dtype.name != output.dtype:
            result = result.view(output.dtype)
        return result.reshape(output.shape)
