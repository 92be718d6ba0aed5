# SPDX-License-Identifier: BSD-3-Clause
"""embedding: rows of a quantized table, C(zo + R(w - zw; M(sw / so))).

The table is the only operand with a block; the indices are integers. `padding_idx` names a row
that training leaves alone; it has no effect on the result. In the delegate the table is brought to
the output's grid ahead of time and rows are picked; an index outside of the table picks its nearest
row, because nothing may be read there and a kernel cannot fail (eager mode raises).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import graph
from fused_quant.ops import rescaling
from fused_quant.ops.common import CODE_NAMES, check_int8_activations, check_rank, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Role,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten


def _covers(site: Site) -> Reason | None:
    reason = check_int8_activations(site, ["weight"], wide=True)
    return reason or rescaling.check(site, "weight")


def _table(site: Site, tensors: Tensors) -> torch.Tensor:
    """The table on the output's grid."""
    bounds = (site.result.quant_min, site.result.quant_max)
    return rescaling.reference(site, tensors, bounds, "weight")


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    return _table(site, tensors)[site.attributes["indices"].long()]


def _supported(site: Site, target: Target) -> Reason | None:
    reason = check_rank(site, target) or _covers(site)
    if reason is not None:
        return reason
    if "weight" not in site.constants:
        return Reason("weights", "weight", "computed", "a constant")
    indices = site.attributes["indices"]
    dtype = (graph.val_of(indices) if isinstance(indices, Node) else indices).dtype
    if dtype not in (torch.int32, torch.int64):
        return Reason("dtype", "indices dtype", str(dtype), "torch.int32, torch.int64")
    if isinstance(indices, torch.Tensor):
        rows = site.shapes["weight"][0]
        if int(indices.min()) < 0 or int(indices.max()) >= rows:
            got = f"[{int(indices.min())}, {int(indices.max())}]"
            return Reason("indices", "indices", got, f"within [0, {rows - 1}]")
    return None


def _lower(site: Site, builder: Builder) -> None:
    indices = site.attributes["indices"]
    if isinstance(indices, Node):
        index = builder.node_operand(indices)
    else:
        index = builder.constant("indices", indices.to(torch.int32).numpy(), "s32")
    result = builder.result(builder.LOGICAL)
    params, dtype = builder.program.tensors[result].qparams, CODE_NAMES[site.result.dtype]
    table = builder.constant("table", _table(site, site.constants).numpy(), dtype, params)
    given = builder.schema.GatherParamsT()
    given.axis = 0
    builder.emit("gather", [table, index], [result], given)


def _aten_embedding(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    result: torch.Tensor = _aten.embedding.default(tensor(tensors, "weight"), **attributes)
    return result


def _indices(value: Any) -> Any:
    return value


register(
    OpSpec(
        name="embedding",
        fusion=Fusion(
            operands=(Operand("weight", Role.WEIGHT),),
            attributes=(
                "Tensor indices",
                "int padding_idx=-1",
                "bool scale_grad_by_freq=False",
                "bool sparse=False",
            ),
            anchors={
                _aten.embedding.default: parser(
                    {"weight": "weight"},
                    {
                        "indices": _indices,
                        "padding_idx": int,
                        "scale_grad_by_freq": bool,
                        "sparse": bool,
                    },
                )
            },
            aten=_aten_embedding,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation(
            (_aten.embedding.default,), activations=(), weights=("weight",), per_channel=False
        ),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
