# SPDX-License-Identifier: BSD-3-Clause
"""Fused operators of one's own, registered from outside of the package (docs/custom_patterns.md).

A pattern is one ATen operator between dequantize and quantize, or a chain of them with quantize and
dequantize in between. It becomes an operator in the caller's namespace whose eager kernel is the
caller's integer model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fused_quant.ops import registry
from fused_quant.ops.common import parser
from fused_quant.ops.spec import (
    NAMESPACE,
    Annotation,
    Attributes,
    Call,
    Fusion,
    Operand,
    OpSpec,
    Parser,
    Role,
    Runtime,
    Site,
    Step,
    Tensors,
)
from fused_quant.qparams import QParams
from fused_quant.reasons import Reason

__all__ = [
    "Annotation",
    "Call",
    "Operand",
    "QParams",
    "Reason",
    "Role",
    "Site",
    "Step",
    "parser",
    "register_pattern",
]


def _covers_everything(site: Site) -> Reason | None:
    return None


def _spellings(name: str, target: Any) -> tuple[Any, ...]:
    """An overload as it is, and its spelling in place or out of place if there is one."""
    if not isinstance(target, torch._ops.OpOverload):
        overloads = target.overloads() if isinstance(target, torch._ops.OpOverloadPacket) else ()
        supported = [f"torch.ops.{target}.{overload}" for overload in overloads]
        raise ValueError(
            f"{name}: got operator {target}, supported: "
            + (" or ".join(supported) or "an overload, such as torch.ops.aten.relu.default")
        )
    namespace, operator = target._schema.name.split("::")
    twin = operator.removesuffix("_") if operator.endswith("_") else f"{operator}_"
    packet = getattr(getattr(torch.ops, namespace), twin, None)
    other = getattr(packet, target._overloadname, None)
    return (target,) if other is None else (target, other)


def register_pattern(
    name: str,
    operands: Sequence[Operand],
    anchors: Mapping[Any, Parser],
    aten: Callable[[Tensors, Attributes], torch.Tensor],
    reference: Callable[[Site, Tensors], torch.Tensor],
    steps: Sequence[Step] = (),
    attributes: Sequence[str] = (),
    covers: Callable[[Site], Reason | None] = _covers_everything,
    annotation: Annotation | None = None,
    runtime: Runtime | None = None,
) -> OpSpec:
    """Register a fused operator; from now on `fuse` makes it where the pattern is found.

    name: "namespace::operator", in another namespace than the package's. operands: the tensors, in
    schema order. anchors: ATen spelling of the first operator -> how to read a call of it. aten:
    the first operator in float. steps: the operators behind it; the block of what each one reads is
    part of the fused operator. reference: the integer model of the whole, on codes; it gets the
    blocks by `site.block(name)` and `site.result`. attributes: schema text of further arguments.
    covers: a reason why the integer model does not define a case, which is then computed in float.
    annotation: how the default quantizer marks ATen operators it does not know. runtime: how the
    delegate runs it; without, the partitioner leaves it to a kernel of the caller.

    The fake kernel, the schema and the `.out` overload are made from these. Patterns from outside
    are looked for before the package's own operators, longer chains first: as the graph spells its
    operators, and again as the rewrites of `fuse` do. An overload in place is its functional one.

    Raises ValueError for a name without a namespace of its own, for names given twice, for a
    pattern without an anchor, and for an operator that is not an overload.
    """
    namespace, separator, operator = name.partition("::")
    if not separator or not namespace or not operator.isidentifier() or namespace == NAMESPACE:
        raise ValueError(
            f"register_pattern: got name {name!r}, supported: 'namespace::operator' "
            f"with another namespace than {NAMESPACE}"
        )
    if not anchors:
        raise ValueError(f"{name}: got no anchors, supported: one or more ATen operators")
    blocks = [*(operand.name for operand in operands), *(step.name for step in steps), "out"]
    twice = sorted({block for block in blocks if blocks.count(block) > 1})
    if twice:
        raise ValueError(f"{name}: got {', '.join(twice)} more than once, supported: unique names")
    spelled = [
        dataclasses.replace(
            step, targets=tuple(s for t in step.targets for s in _spellings(name, t))
        )
        for step in steps
    ]
    twins = {s: parse for target, parse in anchors.items() for s in _spellings(name, target)}
    fusion = Fusion(
        operands=tuple(operands),
        attributes=tuple(attributes),
        anchors={**twins, **anchors},
        aten=aten,
        reference=reference,
        covers=covers,
        steps=tuple(spelled),
    )
    return registry.register(OpSpec(operator, fusion, annotation, runtime, namespace=namespace))
