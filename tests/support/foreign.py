# SPDX-License-Identifier: BSD-3-Clause
"""Other projects' quantizers, for graphs that are not ours.

Those of Arm and for Cortex-M rewrite the graph before they annotate it and do not accept the guard
call that `ExportedProgram.module()` adds: export for them with `unguarded`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantizer import Quantizer
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)

from tests.support import speedups, tosa_names


def xnnpack_quantizer(per_channel: bool = True, qat: bool = False) -> XNNPACKQuantizer:
    """ExecuTorch's quantizer for CPUs: int8 activations, symmetric int8 weights."""
    speedups.install()
    config = get_symmetric_quantization_config(is_per_channel=per_channel, is_qat=qat)
    return XNNPACKQuantizer().set_global(config)


def x86_inductor_quantizer(qat: bool = False) -> X86InductorQuantizer:
    """X86 quantizer of torchao: uint8 activations, symmetric int8 weights per channel."""
    config = get_default_x86_inductor_quantization_config(is_qat=qat)
    return X86InductorQuantizer().set_global(config)


def arm_quantizer(per_channel: bool = True) -> Quantizer:
    """ExecuTorch's quantizer for Arm's TOSA, INT profile: int8 activations, int32 biases."""
    tosa_names.install()
    from executorch.backends.arm.quantizer import arm_quantizer as arm
    from executorch.backends.arm.tosa import TosaSpecification

    quantizer = arm.TOSAQuantizer(TosaSpecification.create_from_string("TOSA-1.0+INT"))
    return quantizer.set_global(arm.get_symmetric_quantization_config(is_per_channel=per_channel))


def cortex_m_quantizer(explicit_layout: bool = True) -> Quantizer:
    """ExecuTorch's quantizer for CMSIS-NN: int8 activations, int32 biases.

    Without `explicit_layout` it takes only convolutions with channels-last inputs.
    """
    tosa_names.install()
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

    return CortexMQuantizer(use_explicit_layout=explicit_layout)


FOREIGN: dict[str, Callable[[], Quantizer]] = {
    "xnnpack": xnnpack_quantizer,
    "xnnpack_per_tensor": lambda: xnnpack_quantizer(per_channel=False),
    "x86_inductor": x86_inductor_quantizer,
    "arm": arm_quantizer,
    "cortex_m": cortex_m_quantizer,
}


def unguarded(module: nn.Module, *inputs: Tensor) -> GraphModule:
    """The graph of a module in evaluation mode, as every quantizer here accepts it."""
    return torch.export.export(module.eval(), inputs).module(check_guards=False)
