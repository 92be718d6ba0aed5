# SPDX-License-Identifier: BSD-3-Clause
"""Helpers on fx graphs: operators behind edge wrappers, bound arguments, constants."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node

ORIGIN = "fused_quant_origin"
SHIELDED = "fused_quant_shielded"
_KEPT_META = (
    "nn_module_stack",
    "stack_trace",
    "source_fn_stack",
    "debug_handle",
    "quantization_tag",
    "fused_quant_owned",
)
LIFTED = "fused_quant_lifted"
CONSTANT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)

_qd = torch.ops.quantized_decomposed
QUANTIZE = _qd.quantize_per_tensor.default
DEQUANTIZE = _qd.dequantize_per_tensor.default
QUANTIZE_TENSOR = _qd.quantize_per_tensor.tensor
DEQUANTIZE_TENSOR = _qd.dequantize_per_tensor.tensor
QUANTIZE_CHANNEL = _qd.quantize_per_channel.default
DEQUANTIZE_CHANNEL = _qd.dequantize_per_channel.default
GETITEM = operator.getitem
_EXPAND, _EXPAND_COPY = torch.ops.aten.expand.default, torch.ops.aten.expand_copy.default


def op_of(node: Any) -> Any:
    """The torch operator (or function) a call node runs, without its edge wrapper; else None.

    None as well for a node that rewrites must not see (passes/shield.py).
    """
    if not isinstance(node, Node) or node.op != "call_function" or SHIELDED in node.meta:
        return None
    return node.target._op if isinstance(node.target, EdgeOpOverload) else node.target


def bind(node: Node) -> dict[str, Any]:
    """Every argument of an operator call by schema name, defaults filled in."""
    schema = op_of(node)._schema
    bound: dict[str, Any] = {}
    for position, argument in enumerate(schema.arguments):
        if position < len(node.args) and not argument.kwarg_only:
            bound[argument.name] = node.args[position]
        elif argument.name in node.kwargs:
            bound[argument.name] = node.kwargs[argument.name]
        else:
            bound[argument.name] = argument.default_value
    return bound


def val_of(node: Node) -> Any:
    """The fake value of a node (`meta["val"]`); KeyError when the graph was never traced."""
    return node.meta["val"]


def shape_of(node: Node) -> tuple[int, ...]:
    """The static sizes of a node's tensor. Raises ValueError for a symbolic size."""
    sizes = []
    for size in val_of(node).shape:
        if not isinstance(size, int):
            raise ValueError(f"{node.name}: got dynamic size {size}, supported: static sizes")
        sizes.append(size)
    return tuple(sizes)


def is_static(node: Node) -> bool:
    """True if every size of a node's tensor is known ahead of time."""
    return all(isinstance(size, int) for size in val_of(node).shape)


def rank_of(node: Node) -> int:
    """The number of dimensions of a node's tensor, of whatever sizes."""
    return len(val_of(node).shape)


def is_float_tensor(node: Node) -> bool:
    """True if the node's value is one floating-point tensor."""
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and val.dtype.is_floating_point


def fetch_attr(gm: GraphModule, target: str) -> Any:
    """The attribute behind a get_attr node, by dotted name."""
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    return value


def constant_of(gm: GraphModule, node: Any) -> torch.Tensor | None:
    """The value of a constant node (get_attr of a real tensor); None for anything else."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    value = fetch_attr(gm, str(node.target))
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
        return None
    return value.detach()


def drop_unread_constants(gm: GraphModule) -> None:
    """Remove parameters and buffers that no node reads; export would keep them in the program."""
    read = {str(node.target) for node in gm.graph.nodes if node.op == "get_attr"}
    called = {str(node.target) for node in gm.graph.nodes if node.op == "call_module"}
    names = [name for name, _ in gm.named_parameters(remove_duplicate=False)]
    names += [name for name, _ in gm.named_buffers(remove_duplicate=False)]
    for name in names:
        owner, _, attribute = name.rpartition(".")
        if name not in read and not any(f"{name}.".startswith(f"{c}.") for c in called):
            delattr(gm.get_submodule(owner), attribute)


def fake_mode_of(gm: GraphModule) -> Any:
    """The fake tensor mode that the values of a graph belong to, or None."""
    for node in gm.graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, FakeTensor):
            return val.fake_mode
    return None


def add_constant(gm: GraphModule, before: Node, value: torch.Tensor, hint: str) -> Node:
    """A get_attr node for a new constant; an equal constant of the same hint is used again."""
    for name, existing in gm.named_buffers(recurse=False):
        if (
            name.startswith(hint)
            and existing.dtype == value.dtype
            and existing.shape == value.shape
            and torch.equal(existing, value)
        ):
            break
    else:
        index = 0
        while hasattr(gm, f"{hint}_{index}"):
            index += 1
        name = f"{hint}_{index}"
        gm.register_buffer(name, value)
        existing = value
    with gm.graph.inserting_before(before):
        node = gm.graph.get_attr(name)
    mode = fake_mode_of(gm)
    node.meta["val"] = mode.from_tensor(existing, static_shapes=True) if mode else existing
    return node


def origins(node: Node) -> tuple[str, ...]:
    """Names of the nodes of the graph before canonicalization that this node stands for."""
    return tuple(node.meta.get(ORIGIN, ()))


def call(
    gm: GraphModule,
    before: Node,
    target: Any,
    args: tuple[Any, ...],
    like: tuple[Node, ...],
    kwargs: Mapping[str, Any] | None = None,
) -> Node:
    """Insert a call node, compute its fake value and give it the origins of the nodes `like`."""
    with gm.graph.inserting_before(before):
        node = gm.graph.call_function(target, args, dict(kwargs or {}))
    refresh_val(node)
    merged: dict[str, None] = {}
    for source in like:
        merged.update(dict.fromkeys(origins(source)))
    node.meta[ORIGIN] = tuple(merged)
    for key in _KEPT_META:
        for source in like:
            if key in source.meta:
                node.meta[key] = source.meta[key]
    return node


def refresh_val(node: Node) -> None:
    """Recompute `meta["val"]` of a call node from its arguments' values."""
    args = torch.fx.map_arg(node.args, lambda n: n.meta["val"])
    kwargs = torch.fx.map_arg(node.kwargs, lambda n: n.meta["val"])
    if op_of(node) == _EXPAND_COPY:  # its fake kernel takes no symbolic sizes
        node.meta["val"] = _EXPAND(*args, **kwargs).contiguous()
    else:
        node.meta["val"] = node.target(*args, **kwargs)  # type: ignore[operator]


def calls(gm: GraphModule) -> Iterator[Node]:
    """The call_function nodes, safe against edits while iterating."""
    for node in list(gm.graph.nodes):
        if node.op == "call_function":
            yield node


def real_tensor(value: Any) -> torch.Tensor | None:
    """The real tensor behind a fake one that was made from it by `FakeTensorMode.from_tensor`.

    ExecuTorch hands partitioners a program whose state dict is fake, but a claim can depend on
    values (accumulator bounds, scales). The fake mode remembers what it converted.
    """
    if not isinstance(value, FakeTensor):
        return value if isinstance(value, torch.Tensor) else None
    converter = value.fake_mode.fake_tensor_converter.meta_converter
    for real, index in converter.describer.lookup_tensor.items():
        if converter.tensor_memo.get(index) is value:
            return real if isinstance(real, torch.Tensor) else None
    return None


def constant_targets(program: ExportedProgram) -> dict[str, str]:
    """Placeholder name -> state or constant name of each parameter, buffer or lifted tensor.

    Buffers that the program mutates are state, not constants, and are left out.
    """
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    return {
        spec.arg.name: str(spec.target)
        for spec in signature.input_specs
        if spec.kind in CONSTANT_KINDS and spec.target not in mutated
    }


def unlifted(program: ExportedProgram) -> GraphModule:
    """A private copy of a program's graph, constants as get_attr nodes and edge wrappers removed.

    Every node carries its own name as its origin. `meta[LIFTED]` of the copy maps the placeholder
    of each constant to its attribute. The program itself is not touched.
    """
    graph = torch.fx.Graph()
    gm = GraphModule(torch.nn.Module(), graph)
    names = constant_targets(program)
    mapping: dict[Node, Node] = {}
    gm.meta[LIFTED] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in names:
            target = names[node.name]
            stored = program.state_dict.get(target, program.constants.get(target))
            attribute = "constant_" + target.replace(".", "_")
            while hasattr(gm, attribute):
                attribute += "_"
            tensor = real_tensor(stored)
            gm.register_buffer(attribute, None if tensor is None else tensor.detach())
            new = graph.get_attr(attribute)
            gm.meta[LIFTED][node.name] = attribute
        else:
            new = graph.node_copy(node, mapping.__getitem__)
            if node.op == "call_function":
                new.target = op_of(node)
            elif node.op == "get_attr":  # a submodule: a delegate, a branch
                setattr(gm, str(node.target), fetch_attr(program.graph_module, str(node.target)))
        new.meta = dict(node.meta)
        new.meta[ORIGIN] = (node.name,)
        mapping[node] = new
    return gm
