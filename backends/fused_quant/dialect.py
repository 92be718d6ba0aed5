# SPDX-License-Identifier: BSD-3-Clause
"""The `fused_quant` operator library: schemas, integer eager kernels, fake kernels, parsing.

Argument order: tensor operands; one block of five (`<operand>_scale`, `_zero_point`, `_dtype`,
`_quant_min`, `_quant_max`) per operand; the `out` block; the ATen operator's other arguments.
A block whose scale and zero point are None marks a float edge. An operand that is a list of tensors
has a block of lists (and one float dtype). Tensors that are never quantized (indices, the affine
parameters of a normalization) come last, among the ATen operator's other arguments.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.spec import Attributes, Fusion, Operand, OpSpec, Site, Tensors
from fused_quant.qparams import BLOCK_FIELDS, BYTE_OFFSET, QParams, to_signed, to_unsigned

_UPSTREAM = "executorch.backends.fused_quant"


def _import_upstream() -> None:
    """Let an upstream frontend define its operators first: it owns the namespace."""
    try:
        found = importlib.util.find_spec(f"{_UPSTREAM}.ops") is not None
    except ModuleNotFoundError:
        found = False
    if found:
        importlib.import_module(f"{_UPSTREAM}.ops")


_import_upstream()
_libraries: dict[str, torch.library.Library] = {}


def _library(namespace: str) -> torch.library.Library:
    if namespace not in _libraries:
        _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    return _libraries[namespace]


def _packet(spec: OpSpec) -> Any:
    return getattr(getattr(torch.ops, spec.namespace), spec.name, None)


def _fusion(spec: OpSpec) -> Fusion:
    if spec.fusion is None:
        raise ValueError(f"{spec.name} is not a fused operator")
    return spec.fusion


def _field(name: str, type_text: str, operand: Operand | None) -> str:
    return f"{type_text}{'[]' if operand is not None and operand.many else ''} {name}"


def schema_of(spec: OpSpec) -> str:
    """The schema text of a fused operator, built from its operands and attributes."""
    fusion = _fusion(spec)
    tensors = [_field(o.name, f"Tensor{'?' if o.optional else ''}", o) for o in fusion.operands]
    blocks = []
    lists = {operand.name: operand for operand in fusion.operands}
    for name in (*fusion.block_names, "out"):
        operand = lists.get(name)
        blocks += [
            _field(f"{name}_scale", "Tensor?", operand),
            _field(f"{name}_zero_point", "Tensor?", operand),
            f"ScalarType {name}_dtype",
            _field(f"{name}_quant_min", "int", operand),
            _field(f"{name}_quant_max", "int", operand),
        ]
    returns = "Tensor" if fusion.results == 1 else f"({', '.join(['Tensor'] * fusion.results)})"
    arguments = ", ".join([*tensors, *blocks, *fusion.attributes])
    return f"{spec.qualified_name}({arguments}) -> {returns}"


def define(spec: OpSpec) -> Any:
    """Define the operator unless somebody else has; returns its overload.

    When an upstream frontend defined it, eager mode runs upstream's (float) kernel and the integer
    reference stays reachable through `reference`.
    """
    fusion = _fusion(spec)
    overload = fusion.overload or "default"
    packet = _packet(spec)
    if packet is not None and overload in packet.overloads():
        return getattr(packet, overload)
    library = _library(spec.namespace)
    library.define(schema_of(spec), tags=(torch.Tag.pt2_compliant_tag,))

    def eager(*args: Any, **kwargs: Any) -> Any:
        return reference(spec, *args, **kwargs)

    def fake(*args: Any, **kwargs: Any) -> Any:
        return _fake(spec, *args, **kwargs)

    library.impl(spec.qualified_name, eager, "CPU")
    torch.library.register_fake(f"{spec.namespace}::{spec.qualified_name}", fake, lib=library)
    if not spec.is_own and fusion.results == 1:
        _define_out(spec, library)
    return getattr(_packet(spec), overload)


def _define_out(spec: OpSpec, library: torch.library.Library) -> None:
    """The spelling that writes into its last argument, under which ExecuTorch looks for kernels."""
    overload = _fusion(spec).overload
    arguments = schema_of(spec).split("(", 1)[1].rsplit(") -> ", 1)[0]
    name = f"{spec.name}.{overload + '_' if overload else ''}out"
    library.define(f"{name}({arguments}, *, Tensor(a!) out) -> Tensor(a!)")

    def write(*args: Any, out: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return out.copy_(reference(spec, *args, **kwargs))

    def fake(*args: Any, out: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return out

    library.impl(name, write, "CPU")
    torch.library.register_fake(f"{spec.namespace}::{name}", fake, lib=library)


def operands_of(spec: OpSpec, bound: dict[str, Any]) -> dict[str, Any]:
    """Operand name -> bound value; the members of a list operand by their own names."""
    values: dict[str, Any] = {}
    for operand in _fusion(spec).operands:
        value = bound[operand.name]
        if operand.many:
            values.update({f"{operand.name}_{i}": member for i, member in enumerate(value)})
        else:
            values[operand.name] = value
    return values


def parse_arguments(spec: OpSpec, bound: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split bound arguments into raw blocks by operand name (and `out`) and attributes by name."""
    remaining = dict(bound)
    blocks = {}
    fusion = _fusion(spec)
    lists = {operand.name: operand for operand in fusion.operands}
    for name in (*fusion.block_names, "out"):
        operand = lists.get(name)
        block = {field: remaining.pop(f"{name}_{field}") for field in BLOCK_FIELDS}
        if operand is None or not operand.many:
            blocks[name] = block
        else:
            blocks.update(_members(name, len(bound[name]), block))
        remaining.pop(name, None)
    return blocks, remaining


def _members(name: str, count: int, block: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The blocks of a list operand's members. ValueError if a field's length differs."""
    block["dtype"] = [block["dtype"]] * count
    for field, values in block.items():
        if len(values) != count:
            raise ValueError(f"{name}_{field}: got {len(values)} entries for {count} tensors")
    return {f"{name}_{i}": {f: values[i] for f, values in block.items()} for i in range(count)}


def _bind_call(spec: OpSpec, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    overload = _fusion(spec).overload or "default"
    op = getattr(_packet(spec), overload)
    names = [a.name for a in op._schema.arguments]
    defaults = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def _dequantized(spec: OpSpec, bound: dict[str, Any], blocks: dict[str, Any]) -> dict[str, Any]:
    tensors = {}
    for name, value in operands_of(spec, bound).items():
        params = QParams.from_block(**blocks[name], name=name)
        tensors[name] = value if value is None or params is None else params.dequantize(value)
    return tensors


def eager_site(spec: OpSpec, bound: dict[str, Any], out_shape: tuple[int, ...]) -> Site:
    """The site of an eager call: every operand is a known tensor."""
    blocks, attributes = parse_arguments(spec, bound)
    tensors = operands_of(spec, bound)
    present = {name: t for name, t in tensors.items() if t is not None}
    return Site(
        spec=spec,
        name=spec.qualified_name,
        shapes={name: tuple(t.shape) for name, t in present.items()},
        dtypes={name: t.dtype for name, t in present.items()},
        qparams={n: QParams.from_block(**blocks[n], name=n) for n in blocks if n != "out"},
        constants=present,
        out=QParams.from_block(**blocks["out"], name="out"),
        out_shape=out_shape,
        attributes=attributes,
    )


def rebased(site: Site) -> Site:
    """The site with int8 codes instead of uint8 ones: codes and zero points less by 128.

    The integer contract is written for int8; both sites name the same reals.
    """
    bytes_ = [
        name
        for name, dtype in site.dtypes.items()
        if dtype == torch.uint8 and site.qparams[name] is not None
    ]
    out = site.out
    if out is not None and out.dtype == torch.uint8:
        out = out.shifted(-BYTE_OFFSET, torch.int8)
    elif not bytes_:
        return site
    for step in _fusion(site.spec).steps:
        params = site.qparams[step.name]
        if params is not None and params.dtype == torch.uint8:
            steps = {step.name: params.shifted(-BYTE_OFFSET, torch.int8)}
            site = dataclasses.replace(site, qparams={**site.qparams, **steps})
    blocks = {name: site.block(name) for name in bytes_}
    shifted = {name: b.shifted(-BYTE_OFFSET, b.dtype) for name, b in blocks.items()}
    codes = {name: to_signed(site.constants[name]) for name in bytes_ if name in site.constants}
    return dataclasses.replace(
        site,
        dtypes={**site.dtypes, **dict.fromkeys(bytes_, torch.int8)},
        qparams={**site.qparams, **shifted},
        constants={**site.constants, **codes},
        out=out,
    )


def is_fully_quantized(site: Site) -> bool:
    """True if the output and every operand that is present have parameters."""
    names = (*site.shapes, *(step.name for step in _fusion(site.spec).steps))
    return site.out is not None and all(site.qparams[name] is not None for name in names)


def is_integer_instance(site: Site) -> bool:
    """True if the integer reference may know it: its result alone may be in float."""
    operands = all(site.qparams[name] is not None for name in site.shapes)
    real = site.out is None and _fusion(site.spec).real_result and operands
    return real or is_fully_quantized(site)


Grid = tuple[float, int, int, int, torch.dtype]  # scale, zero point, lowest and highest code


def grids_between(spec: OpSpec, blocks: Mapping[str, QParams | None]) -> dict[str, Grid]:
    """The parameters of what a chain has in between, as numbers; none for a float edge."""
    present = {step.name: blocks[step.name] for step in _fusion(spec).steps}
    return {
        name: (p.scale_value, p.zero_point_value, p.quant_min, p.quant_max, p.dtype)
        for name, p in present.items()
        if p is not None
    }


def in_float(
    spec: OpSpec, tensors: Tensors, attributes: Attributes, grids: Mapping[str, Grid]
) -> torch.Tensor:
    """The operator on float operands; what a chain has in between is rounded to `grids`."""
    fusion = _fusion(spec)
    result = fusion.aten(tensors, attributes)
    for step in fusion.steps:
        grid = grids.get(step.name)
        if grid is not None:
            result = graph.DEQUANTIZE(graph.QUANTIZE(result, *grid), *grid)
        result = step.aten(result, attributes)
    return result


def reference(spec: OpSpec, *args: Any, **kwargs: Any) -> Any:
    """Run a fused operator in eager mode.

    The integer contract (docs/numerics.md) where it is defined, otherwise dequantize -> ATen ->
    quantize in float.
    """
    fusion = _fusion(spec)
    bound = _bind_call(spec, args, kwargs)
    site = eager_site(spec, bound, ())
    blocks, attributes = parse_arguments(spec, bound)
    first = next(iter(site.constants.values()), None)
    if first is None:
        raise ValueError(f"{site.name}: got no tensors, supported: 1 or more")
    signed = rebased(site)
    if is_integer_instance(site) and fusion.covers(signed) is None:
        absent = dict.fromkeys(operands_of(spec, bound))
        result = fusion.reference(signed, {**absent, **signed.constants})
        if site.out is not None and site.out.dtype == torch.uint8:
            result = to_unsigned(result)
    else:
        tensors = _dequantized(spec, bound, blocks)
        result = in_float(spec, tensors, attributes, grids_between(spec, site.qparams))
        if site.out is not None:
            result = site.out.quantize(result)
    result = _in_format_of(first, result)
    if fusion.others is None:
        return result
    others = fusion.others(_dequantized(spec, bound, blocks), attributes)
    return (result, *(_in_format_of(first, other) for other in others))


def _in_format_of(inp: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    if result.dim() == 4 and inp.dim() == 4:
        return result.contiguous(memory_format=suggest_memory_format(inp))
    return result.contiguous()


def _fake(spec: OpSpec, *args: Any, **kwargs: Any) -> Any:
    fusion = _fusion(spec)
    bound = _bind_call(spec, args, kwargs)
    blocks, attributes = parse_arguments(spec, bound)
    operands = operands_of(spec, bound)
    first = next(value for value in operands.values() if value is not None)
    tensors = {}
    for name, value in operands.items():
        quantized = value is not None and blocks[name]["scale"] is not None
        tensors[name] = value.to(blocks[name]["dtype"]) if quantized else value
    result = in_float(spec, tensors, attributes, {})
    if blocks["out"]["scale"] is not None:
        result = result.to(blocks["out"]["dtype"])
    result = _in_format_of(first, result)
    if fusion.others is None:
        return result
    others = fusion.others(tensors, attributes)
    return (result, *(_in_format_of(first, other) for other in others))


def blocks_of(gm: GraphModule, node: Node) -> dict[str, QParams | None]:
    """The quantization parameters on a fused node by operand name, and `out` for the result.

    This is how a pass or another backend reads scale and zero point: from the node itself.
    """
    spec = _spec_of(node)
    blocks, _ = parse_arguments(spec, graph.bind(node))
    result: dict[str, QParams | None] = {}
    for name, block in blocks.items():
        values = dict(block)
        for field in ("scale", "zero_point"):
            if isinstance(values[field], Node):
                values[field] = graph.constant_of(gm, values[field])
                if values[field] is None:
                    raise ValueError(f"{node.name}: {name}_{field} is not a constant")
        result[name] = QParams.from_block(**values, name=f"{node.name}.{name}")
    return result


def _spec_of(node: Node) -> OpSpec:
    from fused_quant.ops import registry

    spec = registry.spec_of(graph.op_of(node))
    if spec is None or spec.fusion is None:
        raise ValueError(f"{node.name}: got {node.target}, supported: a fused_quant operator")
    return spec


def site_of(gm: GraphModule, node: Node) -> Site:
    """Everything known ahead of time about a fused node. ValueError for dynamic sizes."""
    spec = _spec_of(node)
    bound = graph.bind(node)
    _, attributes = parse_arguments(spec, bound)
    for name, value in attributes.items():
        constant = graph.constant_of(gm, value)
        attributes[name] = value if constant is None else constant
    qparams = blocks_of(gm, node)
    out = qparams.pop("out")
    nodes = {name: n for name, n in operands_of(spec, bound).items() if n is not None}
    values = {name: graph.constant_of(gm, n) for name, n in nodes.items()}
    val = graph.val_of(node)
    result = val[0] if isinstance(val, (tuple, list)) else val
    return Site(
        spec=spec,
        name=node.name,
        shapes={name: graph.shape_of(n) for name, n in nodes.items()},
        dtypes={name: graph.val_of(n).dtype for name, n in nodes.items()},
        qparams=qparams,
        constants={name: v for name, v in values.items() if v is not None},
        out=out,
        out_shape=tuple(result.shape),
        attributes=attributes,
        node=node,
    )
