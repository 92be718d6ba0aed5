# SPDX-License-Identifier: BSD-3-Clause
"""The property of every random graph: what the partitioner accepts, the runtime runs to the bit.

A graph is quantized by us (every sixth by XNNPACK's quantizer, every 24th with int16 activations,
every 24th with weights of 4 bits), fused, claimed, serialized, loaded and run with a poisoned
arena; the outputs are those of the fused program in eager mode. Every sixth draws from all
operators, the others from the first table.
"""

from __future__ import annotations

import copy
import dataclasses

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import Quantizer

import fused_quant
from fused_quant.claims import Claims, claim
from fused_quant.quantizer import default_config
from fused_quant.target import resolve_target
from tests.e2e import routes
from tests.frontend.graphs import payload_of_program, run_payload
from tests.support.foreign import xnnpack_quantizer
from tests.support.random_graphs import Inputs, more_inputs, random_module


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one seed: whether everything was one delegate call, and what was left."""

    seed: int
    whole: bool
    refused: tuple[str, ...]


def is_foreign(seed: int) -> bool:
    """True for a seed whose graph another project's quantizer quantizes."""
    return seed % 6 == 5


def draws_more(seed: int) -> bool:
    """True for a seed whose graph has operators of both tables.

    Some of them have conditions that a graph may not meet: tables of int16 that would be far off.
    """
    return seed % 6 == 2


def quantizer_of(seed: int) -> Quantizer:
    """The quantizer of a seed; observers that need no histogram, for speed."""
    if is_foreign(seed):
        return xnnpack_quantizer(per_channel=bool(seed % 2))
    if seed % 24 == 2:
        return fused_quant.default_quantizer(default_config(activation_dtype=torch.int16))
    if seed % 24 == 14:
        return fused_quant.default_quantizer(default_config(weight_bits=4))
    config = default_config(per_channel=bool(seed % 4))
    eps = {"eps": 2.0**-24}
    activation = dataclasses.replace(
        config.input_activation,
        observer_or_fake_quant_ctr=MinMaxObserver.with_args(**eps),
    )
    observer = PerChannelMinMaxObserver if seed % 4 else MinMaxObserver
    weight = dataclasses.replace(
        config.weight,
        observer_or_fake_quant_ctr=observer.with_args(**eps),
    )
    chosen = dataclasses.replace(
        config, input_activation=activation, output_activation=activation, weight=weight
    )
    return fused_quant.default_quantizer(chosen)


def check(seed: int, through_executorch: bool = False) -> Outcome:
    """AssertionError, with the description of the graph, if the property does not hold."""
    module, inputs, description = random_module(seed, more=draws_more(seed))
    calibration = more_inputs(inputs, seed, 2)
    raw = routes.quantize_dequantize(module, calibration, quantizer_of(seed))
    fused = routes.fused_copy(raw)
    chosen = raw if seed % 2 else fused
    program = torch.export.export(chosen, inputs)
    claims = claim(program, resolve_target(None))
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    whole = not claims.refusals and len(set(claims.partitions.values())) == 1 and bool(calls)
    try:
        if whole and not through_executorch:
            _check_natively(program, fused, inputs)
        else:
            _check_in_executorch(chosen, fused, raw, inputs, claims, seed)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}\n{description}") from error
    refused = tuple(str(r.reason) for r in claims.refusals if r.computes)
    return Outcome(seed, whole, refused)


def _check_natively(program: ExportedProgram, fused: GraphModule, inputs: Inputs) -> None:
    expected = routes.eager(fused, inputs)
    routes.assert_same_bits(run_payload(payload_of_program(program), *inputs), expected)


def _check_in_executorch(
    chosen: GraphModule,
    fused: GraphModule,
    raw: GraphModule,
    inputs: Inputs,
    claims: Claims,
    seed: int,
) -> None:
    route = routes.ROUTES[seed // 2 % 2]
    edge = routes.lowered(copy.deepcopy(chosen), inputs, route)
    got = routes.run(edge, inputs)
    expected = routes.eager(fused, inputs)
    if any(refusal.computes for refusal in claims.refusals):
        # What stays outside computes in float: a code more or less may come of each rounding.
        rounded = max(1, routes.rounded_tensors(raw))
        routes.assert_within_codes(got, expected, routes.result_scales(raw), rounded)
    else:
        routes.assert_same_bits(got, expected)


def exported(seed: int) -> ExportedProgram:
    """The quantized program of a seed, to look at."""
    module, inputs, _ = random_module(seed, more=draws_more(seed))
    calibration = more_inputs(inputs, seed, 2)
    raw = routes.quantize_dequantize(module, calibration, quantizer_of(seed))
    return torch.export.export(raw, inputs)
