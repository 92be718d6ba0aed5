# SPDX-License-Identifier: BSD-3-Clause
"""Teacher-forced comparison of every fused operator with its float dequantize -> ATen -> quantize.

The fused program runs with its integer arithmetic. Each fused operator's float equivalent is
computed on the very codes that operator got, so that an error of one layer is not seen in the
next. The float side is written out here with torch's own functions, and shares no code with the
package under test but the operators' argument names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.nn import functional

Tensors = Mapping[str, torch.Tensor | None]
Attributes = Mapping[str, Any]


def _conv2d(t: Tensors, a: Attributes) -> torch.Tensor:
    x, weight = t["inp"], t["weight"]
    assert x is not None
    assert weight is not None
    padding = list(a["padding"])
    if len(padding) == 4:
        top, bottom, left, right = padding
        x, padding = functional.pad(x, [left, right, top, bottom]), [0, 0]
    return functional.conv2d(x, weight, t["bias"], a["stride"], padding, a["dilation"], a["groups"])


def _linear(t: Tensors, a: Attributes) -> torch.Tensor:
    x, weight = t["inp"], t["weight"]
    assert x is not None
    assert weight is not None
    return functional.linear(x, weight, t["bias"])


def _unary(function: Callable[..., Any]) -> Callable[[Tensors, Attributes], torch.Tensor]:
    def call(t: Tensors, a: Attributes) -> torch.Tensor:
        result = function(t["inp"], **a)
        values: torch.Tensor = result[0] if isinstance(result, tuple) else result
        return values

    return call


def _conv1d(t: Tensors, a: Attributes) -> torch.Tensor:
    x, weight = t["inp"], t["weight"]
    assert x is not None
    assert weight is not None
    padding = list(a["padding"])
    if len(padding) == 2:
        x, padding = functional.pad(x, padding), [0]
    return functional.conv1d(x, weight, t["bias"], a["stride"], padding, a["dilation"], a["groups"])


def _convolution(t: Tensors, a: Attributes) -> torch.Tensor:
    return torch.ops.aten.convolution(t["inp"], t["weight"], t["bias"], **a)


def _binary(
    function: Callable[..., torch.Tensor],
) -> Callable[[Tensors, Attributes], torch.Tensor]:
    def call(t: Tensors, a: Attributes) -> torch.Tensor:
        numbers = dict(a)
        other = t["other"] if "other" in t else numbers.pop("other")
        return function(t["inp"], other, **numbers)

    return call


def _layer_norm(t: Tensors, a: Attributes) -> torch.Tensor:
    x = t["inp"]
    assert x is not None
    return functional.layer_norm(x, **a)


def _embedding(t: Tensors, a: Attributes) -> torch.Tensor:
    weight = t["weight"]
    assert weight is not None
    return weight[a["indices"]]


_aten = torch.ops.aten
FLOAT: dict[str, Callable[[Tensors, Attributes], torch.Tensor]] = {
    "conv1d": _conv1d,
    "conv2d": _conv2d,
    "convolution": _convolution,
    "linear": _linear,
    "bmm": _binary(torch.matmul),
    "embedding": _embedding,
    "add": _binary(torch.add),
    "sub": _binary(torch.sub),
    "mul": _binary(torch.mul),
    "relu": _unary(_aten.relu),
    "hard_tanh": _unary(lambda x, min_val, max_val: torch.clamp(x, min_val, max_val)),
    "sigmoid": _unary(torch.sigmoid),
    "tanh": _unary(torch.tanh),
    "silu": _unary(functional.silu),
    "gelu": _unary(functional.gelu),
    "hardswish": _unary(functional.hardswish),
    "hardsigmoid": _unary(functional.hardsigmoid),
    "softmax": _unary(torch.softmax),
    "log_softmax": _unary(torch.log_softmax),
    "native_layer_norm": _layer_norm,
    "max_pool2d_with_indices": _unary(_aten.max_pool2d_with_indices),
    "avg_pool2d": _unary(_aten.avg_pool2d),
    "adaptive_avg_pool2d": _unary(_aten.adaptive_avg_pool2d),
    "mean": _unary(_aten.mean.dim),
    "upsample_nearest2d": _unary(_aten.upsample_nearest2d.default),
    "cat": _unary(torch.cat),
    "requantize": _unary(lambda x: x),
}


@dataclasses.dataclass(frozen=True)
class Layer:
    """Agreement of one operator: shares of output codes, and the largest difference in codes."""

    name: str
    operator: str
    outputs: int
    equal: float
    within_one: float
    largest: int


def _dequantize(codes: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    for dim in range(codes.dim()):
        if scale.numel() > 1:
            repeat = codes.shape[dim] // scale.shape[dim]
            scale = scale.repeat_interleave(repeat, dim)
            zero_point = zero_point.repeat_interleave(repeat, dim)
    values: torch.Tensor = (codes.long() - zero_point.long()).float() * scale.float()
    return values


def float_codes(bound: Mapping[str, Any], operator: str) -> torch.Tensor:
    """Codes (int64) of dequantize -> ATen -> quantize for one call with `bound` arguments."""
    blocks = [name.removesuffix("_scale") for name in bound if name.endswith("_scale")]
    tensors: dict[str, Any] = {}
    for name in blocks:
        if name == "out":
            continue
        value, scale, zero_point = (bound[name + end] for end in ("", "_scale", "_zero_point"))
        if isinstance(value, (list, tuple)):
            value = list(map(_dequantize, value, scale, zero_point))
        elif value is not None and scale is not None:
            value = _dequantize(value, scale, zero_point)
        tensors[name] = value
    fields = ("scale", "zero_point", "dtype", "quant_min", "quant_max")
    known = {f"{block}_{field}" for block in blocks for field in fields} | set(tensors)
    attributes = {name: value for name, value in bound.items() if name not in known}
    y = FLOAT[operator](tensors, attributes)
    steps = torch.round(y / bound["out_scale"].float()) + bound["out_zero_point"]
    codes: torch.Tensor = steps.clamp(bound["out_quant_min"], bound["out_quant_max"]).long()
    return codes


class _Comparer(Interpreter):
    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.seen: dict[str, list[torch.Tensor]] = {}
        self.operators: dict[str, str] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        packet = getattr(n.target, "overloadpacket", None)
        if packet is None or packet._qualified_op_name.split("::")[0] != "fused_quant":
            return result
        operator = packet._qualified_op_name.split("::")[1]
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        arguments = n.target._schema.arguments
        bound = {a.name: a.default_value for a in arguments if a.has_default_value()}
        bound |= dict(zip([a.name for a in arguments], args, strict=False)) | kwargs
        codes = result[0] if isinstance(result, tuple) else result
        difference = codes.long() - float_codes(bound, operator)
        self.seen.setdefault(n.name, []).append(difference.abs().reshape(-1))
        self.operators[n.name] = operator
        return result


def compare(fused: GraphModule, inputs: list[torch.Tensor]) -> list[Layer]:
    """One `Layer` per fused operator, over all inputs."""
    comparer = _Comparer(fused)
    with torch.no_grad():
        for x in inputs:
            comparer.run(x)
    layers = []
    for name, parts in comparer.seen.items():
        difference = torch.cat(parts)
        layers.append(
            Layer(
                name,
                comparer.operators[name],
                difference.numel(),
                float((difference == 0).double().mean()),
                float((difference <= 1).double().mean()),
                int(difference.max()),
            )
        )
    return layers
