# SPDX-License-Identifier: BSD-3-Clause
"""What one operator is: everything ahead of time, as functions in frozen dataclasses.

An `OpSpec` has up to three parts. `fusion` describes the `fused_quant` dialect operator and the
ATen spellings folded into it; `annotation` says how the quantizer marks it; `runtime` says when the
delegate can run it and how it is serialized. Nothing else in the package knows an operator.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import graph
from fused_quant.qparams import QParams
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

NAMESPACE = "fused_quant"
Tensors = Mapping[str, torch.Tensor | None]
Attributes = Mapping[str, Any]


class Role(enum.Enum):
    """What kind of parameters an operand gets."""

    ACTIVATION = "activation"
    WEIGHT = "weight"
    BIAS = "bias"


@dataclasses.dataclass(frozen=True)
class Operand:
    """A tensor operand of a dialect operator; its block's fields are named `<name>_scale` etc.

    many: a list of tensors of one float dtype. Each other field of its block is then a list as
    long, and everything else (sites, calls, `blocks_of`) knows the members as operands `<name>_0`,
    `<name>_1`, ...
    """

    name: str
    role: Role = Role.ACTIVATION
    optional: bool = False
    many: bool = False

    def members(self, names: Iterable[str]) -> list[str]:
        """Which of `names` are this operand: its own name, or those of a list in order."""
        if not self.many:
            return [self.name]
        pattern = re.compile(rf"{re.escape(self.name)}_\d+")
        return [name for name in names if pattern.fullmatch(name)]


@dataclasses.dataclass(frozen=True)
class Call:
    """An ATen node read in the terms of a spec.

    `operands` are float-valued nodes; `absorbed` are further nodes that the fused operator takes
    the place of (a padding in front of a convolution, a transposed weight). An attribute may be
    the node of a tensor that has no block (the indices of an embedding).
    """

    operands: Mapping[str, Node | None]
    attributes: Mapping[str, Any]
    absorbed: tuple[Node, ...] = ()


Parser = Callable[[Node], Call | Reason]


@dataclasses.dataclass(frozen=True)
class Site:
    """One instance of a dialect operator with everything known about it ahead of time.

    `constants` holds the values of operands known before execution (all of them in eager mode).
    `out` is None when the output stays in float. An attribute that is a tensor is its value, or the
    node that computes it.
    """

    spec: OpSpec
    name: str
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, torch.dtype]
    qparams: Mapping[str, QParams | None]
    constants: Mapping[str, torch.Tensor]
    out: QParams | None
    out_shape: tuple[int, ...]
    attributes: Attributes
    node: Node | None = None

    def block(self, operand: str) -> QParams:
        """The parameters of a quantized operand."""
        params = self.qparams[operand]
        if params is None:
            raise ValueError(f"{self.name}: operand {operand} is float, expected quantized")
        return params

    @property
    def result(self) -> QParams:
        """The parameters of a quantized output."""
        if self.out is None:
            raise ValueError(f"{self.name}: the output is float, expected quantized")
        return self.out


def read_defaults(node: Node) -> Attributes | None:
    """No attributes, of a call that gives nothing but its tensor; None for any other call."""
    _, *rest = graph.bind(node).items()
    schema = {argument.name: argument.default_value for argument in node.target._schema.arguments}  # type: ignore[union-attr]
    return {} if all(schema[name] == value for name, value in rest) else None


@dataclasses.dataclass(frozen=True)
class Step:
    """A further operator of a chain, behind a quantize and a dequantize of what it reads.

    name: of the block of those two, which the fused operator keeps: the intermediate saturates.
    targets: ATen spellings, whose first argument is what is read. aten: in float. read: attributes
    of the call by name, or None for a call that is not meant.
    """

    name: str
    targets: tuple[Any, ...]
    aten: Callable[[torch.Tensor, Attributes], torch.Tensor]
    read: Callable[[Node], Attributes | None] = read_defaults


@dataclasses.dataclass(frozen=True)
class Fusion:
    """The dialect operator and what becomes it.

    attributes: schema text of the ATen operator's remaining arguments, in ATen order.
    aten: the operator in float, on operands by name and attributes by name.
    reference: the integer contract on codes; called only when `covers` returns None.
    covers: a reason why the integer contract does not define this site; eager then runs in float.
    results: how many tensors the operator returns; only the first is ever quantized.
    others: the further results, from operands in float.
    channel_axis: the dimension of `weight` that its per-channel scales and the bias belong to.
    clamps: a following relu, relu6, hardtanh or clamp may be fused as clamp bounds.
    real_result: `reference` and `covers` know a null out block too: a float32 result.
    keeps_grid: the result consists of input values, so it is exact on the input's own grid.
    steps: operators behind the anchor, of a chain. `aten` is the anchor alone; `reference` is all.
    """

    operands: tuple[Operand, ...]
    attributes: tuple[str, ...]
    anchors: Mapping[Any, Parser]
    aten: Callable[[Tensors, Attributes], torch.Tensor]
    reference: Callable[[Site, Tensors], torch.Tensor]
    covers: Callable[[Site], Reason | None]
    overload: str = ""
    clamps: bool = True
    results: int = 1
    others: Callable[[Tensors, Attributes], tuple[torch.Tensor, ...]] | None = None
    real_result: bool = False
    keeps_grid: bool = False
    channel_axis: Callable[[Attributes], int] = lambda attributes: 0
    steps: tuple[Step, ...] = ()

    @property
    def block_names(self) -> tuple[str, ...]:
        """The operands' names, those of a list not yet told apart, and the steps' names."""
        return (*(o.name for o in self.operands), *(step.name for step in self.steps))


class Sharing(enum.Enum):
    """How the quantizer chooses the output parameters of an operator."""

    OWN = "own"
    INPUT = "input"


@dataclasses.dataclass(frozen=True)
class FixedOutput:
    """Output parameters that follow from the operator's range, whatever the data."""

    scale: float
    zero_point: int
    quant_min: int = -128
    quant_max: int = 127


@dataclasses.dataclass(frozen=True)
class Annotation:
    """ATen operators the quantizer marks, and how.

    activations, weights: names of ATen arguments, of whatever spelling; an argument that is a list
    of tensors counts with every member. sharing: how the output's parameters are chosen; with
    `fixed_output` they are these. condition: which calls of the targets are meant (None: all).
    per_channel: whether the weights may have a scale per channel. unasked: whether the default
    quantizer takes it without being told to take every operator.
    """

    targets: tuple[Any, ...]
    sharing: Sharing = Sharing.OWN
    activations: tuple[str, ...] = ("self", "input")
    weights: tuple[str, ...] = ()
    fixed_output: FixedOutput | None = None
    condition: Callable[[Node], bool] | None = None
    per_channel: bool = True
    unasked: bool = True


class Layout(enum.Enum):
    """What an operator wants of the dimension order of its activations of rank 3 to 5."""

    CHANNELS_LAST = "channels_last"  # [N, C, spatial...] with the channels behind
    ANY = "any"  # the same order on all sides
    FREE = "free"  # each side may have its own


@dataclasses.dataclass(frozen=True)
class Runtime:
    """How the delegate runs a site: `supported` gives a reason for what it cannot."""

    supported: Callable[[Site, Target], Reason | None]
    lower: Callable[[Site, Builder], None]
    layout: Layout = Layout.ANY


@dataclasses.dataclass(frozen=True)
class OpSpec:
    """One operator. Without `fusion` it is a graph operator the delegate runs as it stands."""

    name: str
    fusion: Fusion | None = None
    annotation: Annotation | None = None
    runtime: Runtime | None = None
    targets: tuple[Any, ...] = ()  # of an operator without fusion
    moves_data: bool = False  # copies elements: commutes with quantize and dequantize
    reads_codes: bool = False  # knows only the order of its input's elements: codes will do
    namespace: str = NAMESPACE

    @property
    def qualified_name(self) -> str:
        """`name` or `name.overload` of the dialect operator."""
        if self.fusion is not None and self.fusion.overload:
            return f"{self.name}.{self.fusion.overload}"
        return self.name

    @property
    def is_own(self) -> bool:
        """True for an operator of the package, False for one registered from outside."""
        return self.namespace == NAMESPACE

    @property
    def key(self) -> str:
        """The qualified name, with the namespace if that is another one than the package's."""
        prefix = "" if self.is_own else f"{self.namespace}::"
        return prefix + self.qualified_name
