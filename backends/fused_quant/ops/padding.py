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
