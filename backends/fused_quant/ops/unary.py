# SPDX-License-Identifier: BSD-3-Clause
"""Functions of one element: T[q + 128] = clip(zo + RNE(f((q - zi) * si) / so)).

Of int16 codes an interpolated table, or a form without one (ops/wide.py). A line names the ATen
operator; evaluated in float64 it gives the table. Its in-place spelling is an anchor too.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from fused_quant.ops import rescaling, table, wide
from fused_quant.ops.common import check_wide_activations, float32, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    FixedOutput,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Parser,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class Unary:
    """One function: `name` in ATen and in the dialect, its further arguments as schema text.

    fixed: output parameters that follow from its range. bent: whether it has kinks or jumps away
    from zero, where entries of an int16 table need not lie. quantized: whether the default
    quantizer takes it unasked; functions of unbounded slope lose too much at 8 bits.
    """

    name: str
    attributes: tuple[str, ...] = ()
    fixed: FixedOutput | None = None
    quantized: bool = True
    bent: bool = False

    @property
    def aten(self) -> Any:
        """The functional overload."""
        return getattr(_aten, self.name).default

    @property
    def spellings(self) -> tuple[Any, ...]:
        """The functional overload and the in-place one."""
        in_place = getattr(_aten, f"{self.name}_", None)
        return (self.aten,) if in_place is None else (self.aten, in_place.default)


UNARY = (
    Unary("sigmoid", fixed=FixedOutput(1 / 256, -128)),
    Unary("tanh", fixed=FixedOutput(1 / 128, 0)),
    Unary("silu"),
    Unary("hardswish", bent=True),
    Unary("hardsigmoid", bent=True),
    Unary("gelu", ("str approximate",)),
    Unary("mish"),
    Unary("leaky_relu", ("float negative_slope=0.01",)),
    Unary("elu", ("float alpha=1.0", "float scale=1.0", "float input_scale=1.0")),
    Unary("softplus", ("float beta=1.0", "float threshold=20.0")),
    Unary("celu", ("float alpha=1.0",)),
    Unary("hardshrink", ("float lambd=0.5",), bent=True),
    Unary("softshrink", ("float lambd=0.5",), bent=True),
    Unary("threshold", ("float threshold", "float value"), bent=True),
    Unary("log_sigmoid"),
    Unary("abs"),
    Unary("neg"),
    Unary("sign", quantized=False, bent=True),
    Unary("floor", quantized=False, bent=True),
    Unary("ceil", quantized=False, bent=True),
    Unary("round", quantized=False, bent=True),
    Unary("trunc", quantized=False, bent=True),
    Unary("frac", quantized=False, bent=True),
    Unary("exp", quantized=False),
    Unary("exp2", quantized=False),
    Unary("expm1", quantized=False),
    Unary("log", quantized=False),
    Unary("log2", quantized=False),
    Unary("log10", quantized=False),
    Unary("log1p", quantized=False),
    Unary("logit", ("float? eps=None",), quantized=False),
    Unary("sqrt", quantized=False),
    Unary("rsqrt", quantized=False),
    Unary("reciprocal", quantized=False),
    Unary("erf", quantized=False),
    Unary("erfc", quantized=False),
    Unary("sin", quantized=False),
    Unary("cos", quantized=False),
    Unary("tan", quantized=False),
    Unary("asin", quantized=False),
    Unary("acos", quantized=False),
    Unary("atan", quantized=False),
    Unary("sinh", quantized=False),
    Unary("cosh", quantized=False),
    Unary("asinh", quantized=False),
    Unary("acosh", quantized=False),
    Unary("atanh", quantized=False),
)
_BENT = frozenset(unary.name for unary in UNARY if unary.bent)


def covers(site: Site) -> Reason | None:
    """A reason why the integer contract does not define this site."""
    reason = check_wide_activations(site, ["inp"])
    if reason is not None:
        return reason
    form = wide.form_of(site)
    if form is not None:
        return form.check(site)
    return table.check(site, function_of(site), site.spec.name in _BENT)


def function_of(site: Site) -> table.Function:
    """The function of a site whose spec's `aten` has one operand, `inp`."""
    fusion = site.spec.fusion
    assert fusion is not None
    aten = fusion.aten
    return lambda x: aten({"inp": x}, site.attributes)


_tabulated = table.reference(function_of)


def reference(site: Site, tensors: Tensors) -> torch.Tensor:
    """The contract on codes."""
    form = wide.form_of(site)
    return _tabulated(site, tensors) if form is None else form.reference(site, tensors)


def lower(site: Site, builder: Builder) -> None:
    """Emit a table, or the step of a form of int16 codes."""
    form = wide.form_of(site)
    if form is None:
        table.lower_function(site, builder, function_of(site))
    else:
        form.lower(site, builder)


RUNTIME = Runtime(rescaling.supported_with(covers), lower, Layout.ANY)


def _reader(text: str) -> tuple[str, Any]:
    """(argument name, how to read it) of an attribute's schema text."""
    kind, _, rest = text.partition(" ")
    readers = {"str": str, "float": float32, "float?": _number_or_none}
    return rest.partition("=")[0], readers[kind]


def _number_or_none(value: Any) -> float | None:
    return None if value is None else float32(value)


def _register(unary: Unary, further: dict[Any, Parser]) -> None:
    overload = unary.aten

    def aten(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
        result: torch.Tensor = overload(tensor(tensors, "inp"), **attributes)
        return result

    parse = parser({"inp": "self"}, dict(map(_reader, unary.attributes)))
    anchors = {**dict.fromkeys(unary.spellings, parse), **further}
    register(
        OpSpec(
            name=unary.name,
            fusion=Fusion(
                operands=(Operand("inp"),),
                attributes=unary.attributes,
                anchors=anchors,
                aten=aten,
                reference=reference,
                covers=covers,
            ),
            annotation=Annotation(
                tuple(anchors), fixed_output=unary.fixed, unasked=unary.quantized
            ),
            runtime=RUNTIME,
        )
    )


_SELU = {"alpha": 1.6732632423543772, "scale": 1.0507009873554805, "input_scale": 1.0}


def _parse_selu(node: torch.fx.Node) -> Any:
    """Selu is elu with constants: what decomposition makes of it."""
    call = parser({"inp": "self"})(node)
    return call if isinstance(call, Reason) else dataclasses.replace(call, attributes=_SELU)


_FURTHER: dict[str, dict[Any, Parser]] = {
    "elu": dict.fromkeys((_aten.selu.default, _aten.selu_.default), _parse_selu),
}
for _unary in UNARY:
    _register(_unary, _FURTHER.get(_unary.name, {}))
