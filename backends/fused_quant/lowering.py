# SPDX-License-Identifier: BSD-3-Clause
"""From a fused graph to a lowered program: stored tensors, dimension orders, steps.

Operators serialize themselves through `Builder`; it resolves operands in the dimension order they
ask for and inserts a permute only where bytes must really move.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy.typing as npt
import torch
from torch.fx import GraphModule, Node

from fused_quant import dialect, graph, layout, schema_generated
from fused_quant.layout import Order
from fused_quant.lowered import LoweredProgram, LoweredTensor, Storage, StoredQParams
from fused_quant.ops import registry
from fused_quant.ops.boundary import params_of
from fused_quant.ops.spec import OpSpec, Site
from fused_quant.qparams import QParams

DTYPES = {
    torch.int8: "s8",
    torch.uint8: "u8",
    torch.int16: "s16",
    torch.int32: "s32",
    torch.int64: "s64",
    torch.float32: "f32",
    torch.bool: "b8",
}


@dataclasses.dataclass(frozen=True)
class _Value:
    """A graph value as stored: its tensor, the order of its dimensions, and its quantization."""

    tensor: int
    order: Order
    shape: tuple[int, ...]  # logical


def stored_params(params: QParams | None) -> StoredQParams | None:
    """Per-tensor parameters as the payload keeps them."""
    if params is None:
        return None
    return StoredQParams(
        (params.scale_value,), (params.zero_point_value,), params.quant_min, params.quant_max
    )


class Builder:
    """Collects the steps of one delegate; see `lower_graph`."""

    CHANNELS_LAST: Order = layout.CHANNELS_LAST
    channels_last = staticmethod(layout.channels_last)  # of any rank
    LOGICAL = None  # the logical order, whatever the rank
    schema: ModuleType = schema_generated

    def __init__(self, gm: GraphModule, target: str) -> None:
        self.program = LoweredProgram(target=target)
        self._gm = gm
        self._orders = layout.plan_orders(gm)
        self._wanted_outputs = _output_orders(gm)
        self._values: dict[Node, _Value] = {}
        self._converted: dict[tuple[int, Order], int] = {}
        self._site: Site | None = None
        self._result_node: Node | None = None

    # --- called by operators -------------------------------------------------------------------

    @property
    def _node(self) -> Node:
        assert self._site is not None
        assert self._site.node is not None
        return self._site.node

    def _operand_node(self, name: str) -> Node:
        node = self._node
        if self._site is not None and self._site.spec.fusion is not None:
            operand = dialect.operands_of(self._site.spec, graph.bind(node))[name]
        else:
            operand = node.args[0]
        assert isinstance(operand, Node)
        return operand

    def order_of(self, name: str) -> Order:
        """The order an operand is stored in."""
        return self._value(self._operand_node(name)).order

    def wanted_order(self) -> Order:
        """The order the result should have: the program's for an output, else the planned one."""
        node = self._result
        return self._wanted_outputs.get(node, self._orders[node])

    def common_order(self) -> Order:
        """The planned order of the result, for operators with one order on all sides."""
        return self._orders[self._result]

    @property
    def _result(self) -> Node:
        assert self._result_node is not None
        return self._result_node

    def operand(self, name: str, order: Order | None) -> int:
        """The tensor of an operand stored in `order` (None = the logical one)."""
        value = self._value(self._operand_node(name))
        return self._in_order(value, order or layout.identity(len(value.shape))).tensor

    def node_operand(self, node: Node) -> int:
        """The tensor of a node without a block (indices), in logical order."""
        value = self._value(node)
        return self._in_order(value, layout.identity(len(value.shape))).tensor

    def flat(self, tensor: int) -> int:
        """The same bytes as one long row."""
        shape = self.program.tensors[tensor].shape
        count = (math.prod(shape),)
        return self._relabel(_Value(tensor, layout.identity(len(shape)), shape), count, (0,)).tensor

    def temporary(self, like: int, stored: tuple[int, ...], order: Order, suffix: str) -> int:
        """A further tensor of the step, of the dtype and the quantization of another one."""
        logical = tuple(stored[order.index(axis)] for axis in range(len(order)))
        return self._like(like, logical, order, f"{self._result.name}.{suffix}")

    def regridded(self, source: int, params: QParams) -> int:
        """A further tensor of the size of another one, of a quantization of its own."""
        base = self.program.tensors[source]
        tensor = self._like(source, base.shape, layout.identity(len(base.shape)), "regridded")
        self.program.tensors[tensor].dim_order = base.dim_order
        self.program.tensors[tensor].qparams = stored_params(params)
        return tensor

    def broadcast_operand(self, name: str, order: Order) -> int:
        """An operand with leading dimensions of size one up to the rank of `order`, stored so."""
        value = self._value(self._operand_node(name))
        missing = len(order) - len(value.shape)
        if missing:
            logical = self._in_order(value, layout.identity(len(value.shape)))
            value = self._relabel(
                logical, (1,) * missing + value.shape, layout.identity(len(order))
            )
        return self._in_order(value, order).tensor

    def result(self, order: Order | None, like: int = -1) -> int:
        """The tensor of the result, stored in `order` (None = the logical one).

        like: a tensor whose quantization is the result's, of an operator without a block.
        """
        node = self._result
        shape = graph.shape_of(node)
        order = order or layout.identity(len(shape))
        assert self._site is not None
        params = self._site.out if self._site.spec.fusion is not None else _boundary_params(node)
        tensor = self._new(node.name, graph.val_of(node).dtype, shape, order, params)
        if params is None and like >= 0:
            self.program.tensors[tensor].qparams = self.program.tensors[like].qparams
        self._values[node] = _Value(tensor, order, shape)
        return tensor

    def constant(
        self, name: str, data: npt.NDArray[Any], dtype: str, params: StoredQParams | None = None
    ) -> int:
        """A constant tensor of the step."""
        return self.program.add_constant(f"{self._result.name}.{name}", data, dtype, params)

    def emit(
        self,
        opcode: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        params: Any,
        macs: int = 0,
        scratch_bytes: int = 0,
    ) -> None:
        """Append a step named after the graph node.

        scratch_bytes: what the scalar kernel asks for while it runs.
        """
        self.program.add_op(opcode, inputs, outputs, params, self._result.name, macs, scratch_bytes)

    def reshape(self, name: str) -> None:
        """Give the operand's bytes, in logical order, the shape of the result."""
        node = self._result
        value = self._value(self._operand_node(name))
        shape = graph.shape_of(node)
        if value.shape == shape:
            self._values[node] = value
            return
        logical = self._in_order(value, layout.identity(len(value.shape)))
        self._values[node] = self._relabel(logical, shape, layout.identity(len(shape)))

    def permute(self, name: str, dims: Sequence[int]) -> None:
        """Logical dimension i of the result is dimension dims[i] of the operand.

        No byte moves here: the stored order takes it up, until a user asks for another one.
        """
        node = self._result
        value = self._value(self._operand_node(name))
        order = tuple(list(dims).index(axis) for axis in value.order)
        shape = graph.shape_of(node)
        self._values[node] = _Value(value.tensor, order, shape)

    # --- bookkeeping ---------------------------------------------------------------------------

    def _value(self, node: Node) -> _Value:
        if node not in self._values and node.op == "get_attr":
            self._values[node] = self._graph_constant(node)
        return self._values[node]

    def _graph_constant(self, node: Node) -> _Value:
        data = graph.constant_of(self._gm, node)
        if data is None:
            raise ValueError(f"{node.name}: its value is not known ahead of time")
        array = data.contiguous().numpy()
        tensor = self.program.add_constant(node.name, array, DTYPES[data.dtype])
        shape = tuple(data.shape)
        return _Value(tensor, layout.identity(len(shape)), shape)

    def _constant_value(
        self,
        name: str,
        data: npt.NDArray[Any],
        order: Order,
        shape: tuple[int, ...],
        like: LoweredTensor,
    ) -> _Value:
        tensor = self.program.add_constant(name, data, like.dtype, like.qparams)
        self.program.tensors[tensor].dim_order = order
        return _Value(tensor, order, shape)

    def _new(
        self,
        name: str,
        dtype: torch.dtype,
        shape: tuple[int, ...],
        order: Order,
        params: QParams | None,
    ) -> int:
        return self.program.add_tensor(
            LoweredTensor(
                name=name,
                dtype=DTYPES[dtype],
                shape=tuple(shape[axis] for axis in order),
                storage=Storage.ARENA,
                dim_order=order,
                qparams=stored_params(params),
            )
        )

    def _like(self, source: int, shape: tuple[int, ...], order: Order, suffix: str) -> int:
        base = self.program.tensors[source]
        return self.program.add_tensor(
            LoweredTensor(
                name=f"{base.name}.{suffix}",
                dtype=base.dtype,
                shape=tuple(shape[axis] for axis in order),
                storage=Storage.ARENA,
                dim_order=order,
                qparams=base.qparams,
            )
        )

    def _relabel(self, value: _Value, shape: tuple[int, ...], order: Order) -> _Value:
        """The same bytes under another shape or order."""
        stored = tuple(shape[axis] for axis in order)
        if self.program.tensors[value.tensor].shape == stored:
            return _Value(value.tensor, order, shape)
        base = self.program.tensors[value.tensor]
        if base.data is not None:
            return self._constant_value(base.name, base.data.reshape(stored), order, shape, base)
        tensor = self._like(value.tensor, shape, order, "view")
        if base.storage is Storage.ARENA:
            self.program.tensors[tensor].alias = self.program.owner(value.tensor)
        else:  # a boundary buffer has one shape
            self._copy(value.tensor, tensor)
        return _Value(tensor, order, shape)

    def _copy(self, source: int, tensor: int) -> None:
        params = self.schema.LayoutParamsT()
        params.perm = []
        name = self.program.tensors[tensor].name
        self.program.add_op("copy", [source], [tensor], params, name)

    def _in_order(self, value: _Value, order: Order) -> _Value:
        if value.order == order:
            return value
        if layout.is_relabeling(value.shape, value.order, order):
            return self._relabel(value, value.shape, order)
        # By how the bytes move, since a permutation may have given them another meaning meanwhile.
        perm = tuple(value.order.index(axis) for axis in order)
        key = (value.tensor, perm)
        base = self.program.tensors[value.tensor]
        if base.data is not None and key not in self._converted:
            data = base.data.transpose(perm)
            moved = self._constant_value(base.name, data, order, value.shape, base)
            self._converted[key] = moved.tensor
        if key not in self._converted:
            tensor = self._like(value.tensor, value.shape, order, "permuted")
            self._permute_into(value, tensor, order)
            self._converted[key] = tensor
        return _Value(self._converted[key], order, value.shape)

    def _permute_into(self, value: _Value, tensor: int, order: Order) -> None:
        perm = [value.order.index(axis) for axis in order]
        params = self.schema.LayoutParamsT()
        params.perm = perm
        name = self.program.tensors[tensor].name
        self.program.add_op("permute", [value.tensor], [tensor], params, name)

    # --- driving -------------------------------------------------------------------------------

    def add_input(self, node: Node) -> None:
        """A delegate input, stored as the program hands it over."""
        val = graph.val_of(node)
        order = tuple(int(axis) for axis in val.dim_order()) if val.dim() else ()
        shape = graph.shape_of(node)
        tensor = self._new(node.name, val.dtype, shape, order, None)
        self.program.tensors[tensor].storage = Storage.INPUT
        self.program.tensors[tensor].location = len(self.program.inputs)
        self.program.inputs.append(tensor)
        self._values[node] = _Value(tensor, order, shape)

    def add_call(self, node: Node, site: Site, runtime_spec: OpSpec) -> None:
        """Lower one supported node."""
        assert runtime_spec.runtime is not None
        values = [user for user in node.users if graph.op_of(user) is graph.GETITEM]
        self._site, self._result_node = site, values[0] if values else node
        runtime_spec.runtime.lower(site, self)

    def add_output(self, node: Node) -> None:
        """A delegate output, stored in the order the program expects."""
        value = self._value(node)
        order = self._wanted_outputs[node]
        base = self.program.tensors[value.tensor]
        position = len(self.program.outputs)
        viewed = any(t.alias == value.tensor for t in self.program.tensors)
        plain = base.storage is Storage.ARENA and base.alias < 0 and not viewed
        if plain and value.order == order:
            base.storage, base.location = Storage.OUTPUT, position
            self.program.outputs.append(value.tensor)
            return
        tensor = self._like(value.tensor, value.shape, order, f"output{position}")
        self.program.tensors[tensor].storage = Storage.OUTPUT
        self.program.tensors[tensor].location = position
        if layout.is_relabeling(value.shape, value.order, order):
            self._copy(self._relabel(value, value.shape, order).tensor, tensor)
        else:
            self._permute_into(value, tensor, order)
        self.program.outputs.append(tensor)


def _boundary_params(node: Node) -> QParams | None:
    return params_of(node) if graph.op_of(node) == graph.QUANTIZE else None


def _output_orders(gm: GraphModule) -> dict[Node, Order]:
    """The dimension order the program expects of each output."""
    orders = {}
    for node in _outputs(gm):
        val = graph.val_of(node)
        orders[node] = tuple(int(axis) for axis in val.dim_order()) if val.dim() else ()
    return orders


def _outputs(gm: GraphModule) -> list[Node]:
    output = next(node for node in gm.graph.nodes if node.op == "output")
    results = output.args[0]
    return [results] if isinstance(results, Node) else list(results)


def boundary_site(gm: GraphModule, node: Node, spec: OpSpec) -> Site:
    """The site of an operator without a dialect form (quantize, reshape, …).

    Its attributes are the arguments behind the first one, constants by value.
    """
    source = node.args[0]
    assert isinstance(source, Node)
    bound = graph.bind(node)
    attributes = torch.fx.map_arg(
        dict(list(bound.items())[1:]),
        lambda n: n if (value := graph.constant_of(gm, n)) is None else value,
    )
    return Site(
        spec=spec,
        name=node.name,
        shapes={"inp": graph.shape_of(source)},
        dtypes={"inp": graph.val_of(source).dtype},
        qparams={},
        constants={},
        out=None,
        out_shape=graph.shape_of(node),
        attributes=attributes,
        node=node,
    )


def site_of(gm: GraphModule, node: Node) -> Site:
    """The site of any node the delegate may run. ValueError for one it does not know."""
    spec = registry.spec_of(graph.op_of(node))
    if spec is None:
        raise ValueError(f"{node.name}: got {node.target}, supported: operators of the registry")
    return boundary_site(gm, node, spec) if spec.fusion is None else dialect.site_of(gm, node)


def lower_graph(gm: GraphModule, target: str) -> LoweredProgram:
    """Lower a fused graph whose every call node is supported. ValueError names one that is not."""
    builder = Builder(gm, target)
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            builder.add_input(node)
        elif node.op == "call_function" and graph.op_of(node) is not graph.GETITEM:
            site = site_of(gm, node)
            builder.add_call(node, site, site.spec)
    for node in _outputs(gm):
        builder.add_output(node)
    return builder.program
