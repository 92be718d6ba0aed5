# SPDX-License-Identifier: BSD-3-Clause
"""Other projects' quantizers, for graphs that are not ours."""

from __future__ import annotations

from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)

from tests.support import speedups


def xnnpack_quantizer(per_channel: bool = True) -> XNNPACKQuantizer:
    """ExecuTorch's quantizer for CPUs: int8 activations, symmetric int8 weights."""
    speedups.install()
    config = get_symmetric_quantization_config(is_per_channel=per_channel)
    return XNNPACKQuantizer().set_global(config)
