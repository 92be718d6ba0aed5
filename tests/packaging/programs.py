# SPDX-License-Identifier: BSD-3-Clause
"""Programs for tests of the delegate itself: payloads written by hand inside a real .pte.

They need neither the quantizer nor the partitioner, so what the ExecuTorch program says about an
argument and what the payload says can be made to differ.
"""

from __future__ import annotations

import numpy as np
import torch
from executorch.exir import to_edge
from executorch.exir.lowered_backend_module import LoweredBackendModule

from fused_quant import payload
from fused_quant import schema_generated as schema
from fused_quant.lowered import LoweredProgram, LoweredTensor, Storage, StoredQParams
from fused_quant.memory_plan import plan_memory

NHWC = (0, 2, 3, 1)


def _tensor(
    name: str, storage: Storage, dtype: str, shape: tuple[int, ...], dim_order: tuple[int, ...]
) -> LoweredTensor:
    qparams = None if dtype != "s8" else StoredQParams((0.5,), (-3,), -128, 127)
    stored = tuple(shape[d] for d in dim_order) if dim_order else shape
    return LoweredTensor(name, dtype, stored, storage, dim_order, qparams, location=0)


def permute_payload(
    shape: tuple[int, ...], dtype: str = "s8", dim_order: tuple[int, ...] = ()
) -> bytes:
    """One permute that reverses the stored dimensions of an input of logical shape `shape`."""
    program = LoweredProgram("generic")
    x = _tensor("x", Storage.INPUT, dtype, shape, dim_order)
    y = _tensor("y", Storage.OUTPUT, dtype, tuple(reversed(x.shape)), ())
    program.inputs.append(program.add_tensor(x))
    program.outputs.append(program.add_tensor(y))
    perm = list(reversed(range(len(shape))))
    program.add_op("permute", (0,), (1,), schema.LayoutParamsT(perm=perm))
    plan_memory(program)
    return payload.serialize(program)


def linear_payload(in_features: int, out_features: int) -> bytes:
    """Rows of s8 through linear; weight and bias are constants, used in place by the runtime."""
    program = LoweredProgram("generic")
    x = _tensor("x", Storage.INPUT, "s8", (1, in_features), ())
    y = _tensor("y", Storage.OUTPUT, "s8", (1, out_features), ())
    program.inputs.append(program.add_tensor(x))
    weight = np.arange(out_features * in_features).reshape(out_features, in_features) % 251 - 125
    qparams = StoredQParams((0.25,), (0,), -127, 127)
    w = program.add_constant("weight", weight, "s8", qparams)
    b = program.add_constant("bias", np.arange(out_features) * 100, "s32")
    output = program.add_tensor(y)
    program.outputs.append(output)
    params = schema.DotParamsT(
        inputZeroPoint=-3,
        outputZeroPoint=-3,
        multiplier=[2**30],
        shift=[40],
        clampMin=-128,
        clampMax=127,
    )
    program.add_op("linear", (0, w, b), (output,), params)
    plan_memory(program)
    return payload.serialize(program)


class _Declared(torch.nn.Module):
    """Only states the delegate's output; its computation is replaced by the payload."""

    def __init__(self, output: torch.Tensor) -> None:
        super().__init__()
        self.output: torch.Tensor
        self.register_buffer("output", output)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output + x.flatten()[0].to(self.output.dtype)


class _Call(torch.nn.Module):
    def __init__(self, lowered: LoweredBackendModule) -> None:
        super().__init__()
        self.lowered = lowered

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lowered(x)


def program_with_payload(data: bytes, x: torch.Tensor, output: torch.Tensor) -> bytes:
    """A .pte whose method calls the delegate with `data`, for arguments like `x` and `output`."""
    edge = to_edge(torch.export.export(_Declared(output), (x,))).exported_program()
    lowered = LoweredBackendModule(edge, payload.BACKEND_ID, data, [])
    program = to_edge(torch.export.export(_Call(lowered), (x,))).to_executorch()
    return bytes(program.buffer)
