# SPDX-License-Identifier: BSD-3-Clause
"""Turns the parameters of a case into a concrete operator."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from tests.support import (
    cast,
    dot,
    dot_nd,
    dot_w4,
    elementwise,
    from_spec,
    moves,
    quant,
    reduce,
    window,
)
from tests.support.built import Built

Builder = Callable[[str, quant.Parameters, np.random.Generator], Built]

BUILDERS: dict[str, Builder] = {
    "quantize": cast.build_quantize,
    "dequantize": cast.build_dequantize,
    "requantize": elementwise.build_requantize,
    "conv2d": dot.build_conv,
    "depthwise_conv2d": dot.build_conv,
    "linear": dot.build_linear,
    "linear_w4": dot_w4.build,
    "conv2d_w4": dot_w4.build,
    "conv3d": dot_nd.build,
    "conv_transpose2d": dot_nd.build,
    "add": elementwise.build_add,
    "max_pool2d": window.build_max_pool,
    "avg_pool2d": window.build_avg_pool,
    "adaptive_avg_pool2d": window.build_adaptive_avg_pool,
    "mean": reduce.build_mean,
    "argmax": reduce.build_argmax,
    "permute": cast.build_layout,
    "copy": cast.build_layout,
    "slice": moves.build_slice,
    "gather": moves.build_gather,
}


def build(opcode: str, parameters: quant.Parameters, seed: int | None = None) -> Built:
    """The concrete operator; what the parameters leave open is drawn from the seed.

    Without a seed, one is made from the parameters themselves, so a case never changes by its
    position in a list. A case that names a dialect operator ("op") needs no builder.
    """
    if seed is None:
        seed = zlib.crc32(repr((opcode, sorted(parameters.items()))).encode())
    if "acc" in parameters:
        return dot.build_rescale(opcode, parameters, np.random.default_rng(seed))
    if "size" in parameters:
        return dot_nd.build(opcode, parameters, np.random.default_rng(seed))
    builder = from_spec.build if "op" in parameters else BUILDERS[opcode]
    return builder(opcode, parameters, np.random.default_rng(seed))
