# SPDX-License-Identifier: BSD-3-Clause
"""embedding: rows of a quantized table, C(zo + R(w - zw; M(sw / so))).

The table is the only operand with a block; the indices are integers. `padding_idx` names a row
that training leaves alone; it has no effect on the result.
"""

from __future__ import annotations

from typing import Any

import torch

from fused_quant.ops import rescaling
from fused_quant.ops.common import check_int8_activations, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Fusion,
    Operand,
    OpSpec,
    Role,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason

_aten = torch.ops.aten


def _covers(site: Site) -> Reason | None:
    return check_int8_activations(site, ["weight"]) or rescaling.check(site, "weight")


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    bounds = (site.result.quant_min, site.result.quant_max)
    return rescaling.reference(site, tensors, bounds, "weight")[site.attributes["indices"].long()]


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
    )
)
