# SPDX-License-Identifier: BSD-3-Clause
"""Zero padding of an image as an operator of its own, as `torch.nn.functional.pad` makes it.

A convolution takes such a padding in: real 0 around the image is what its own padding adds.
"""

from __future__ import annotations

from typing import Any

import torch

from fused_quant import graph

_aten = torch.ops.aten
PADS = (_aten.constant_pad_nd.default, _aten.pad.default)


def zero_padding(node: Any) -> tuple[int, int, int, int] | None:
    """(top, bottom, left, right) if `node` adds zeros around the last two dimensions, else None."""
    if graph.op_of(node) not in PADS:
        return None
    bound = graph.bind(node)
    amounts = list(bound["pad"])
    if bound.get("mode", "constant") != "constant" or bound["value"] not in (None, 0, 0.0):
        return None
    if len(amounts) > 4 or any(not isinstance(a, int) or a < 0 for a in amounts):
        return None
    left, right, top, bottom = amounts + [0] * (4 - len(amounts))
    return top, bottom, left, right


def is_taken_in(node: Any) -> bool:
    """True for zero padding that a 2-d convolution, its only user, takes in when it is fused."""
    if zero_padding(node) is None or len(node.users) != 1:
        return False
    (user,) = node.users
    op = graph.op_of(user)
    if op not in (_aten.conv2d.default, _aten.conv2d.padding, _aten.convolution.default):
        return False
    bound = graph.bind(user)
    return (
        bound["input"] is node and not bound.get("transposed", False) and graph.rank_of(user) == 4
    )
