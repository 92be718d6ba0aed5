# SPDX-License-Identifier: BSD-3-Clause
"""argmax of int8 codes: dequantizing keeps their order, so it is the argmax of the reals.

The position of the first of several largest elements, int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fused_quant import graph
from fused_quant.ops import reducing
from fused_quant.ops.common import check_rank
from fused_quant.ops.registry import register
from fused_quant.ops.spec import Annotation, Layout, OpSpec, Runtime, Site
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def _axes(site: Site) -> list[int]:
    assert site.node is not None
    dim, rank = graph.bind(site.node)["dim"], len(site.shapes["inp"])
    return list(range(rank)) if dim is None else [dim % rank]


def _supported(site: Site, target: Target) -> Reason | None:
    if site.dtypes["inp"] not in (torch.int8, torch.int16):
        got = str(site.dtypes["inp"])
        return Reason("dtype", "inp dtype", got, "torch.int8, torch.int16, dequantized")
    if not site.shapes["inp"]:
        return Reason("rank", "input rank", "0", "1 or more")
    return check_rank(site, target)


def _lower(site: Site, builder: Builder) -> None:
    assert site.node is not None
    bound, axes = graph.bind(site.node), _axes(site)
    # Positions among all elements are counted in the logical order.
    order = tuple(range(len(site.shapes["inp"])))
    if bound["dim"] is not None:
        order = builder.order_of("inp")
    params = builder.schema.ReduceParamsT()
    params.axes = sorted(order.index(axis) for axis in axes)
    keeps = bound["keepdim"] and len(site.out_shape) == len(order)
    out_order = reducing.result_order(order, axes, keeps)
    builder.emit("argmax", [builder.operand("inp", order)], [builder.result(out_order)], params)


register(
    OpSpec(
        name="argmax",
        targets=(torch.ops.aten.argmax.default,),
        annotation=Annotation((torch.ops.aten.argmax.default,), unasked=False),
        runtime=Runtime(_supported, _lower, Layout.FREE),
        reads_codes=True,
    )
)
