# SPDX-License-Identifier: BSD-3-Clause
"""ExecuTorch programs made field by field, so that every shape of a delegate call can be had."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from executorch.exir import schema as et
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir.scalar_type import ScalarType

from fused_quant.lowered import LoweredProgram, LoweredTensor
from fused_quant.payload import serialize

BACKEND_ID = "FusedQuantBackend"
_SCALAR_TYPES = {
    "s8": ScalarType.CHAR,
    "u8": ScalarType.BYTE,
    "s16": ScalarType.SHORT,
    "s32": ScalarType.INT,
    "s64": ScalarType.LONG,
    "f32": ScalarType.FLOAT,
    "b8": ScalarType.BOOL,
}


def tensor(
    sizes: Sequence[int], dtype: str = "s8", dim_order: Sequence[int] | None = None
) -> et.EValue:
    """A static tensor value of logical `sizes`; the default order is the contiguous one."""
    order = list(range(len(sizes))) if dim_order is None else list(dim_order)
    return et.EValue(
        et.Tensor(
            scalar_type=_SCALAR_TYPES[dtype],
            storage_offset=0,
            sizes=list(sizes),
            dim_order=order,
            requires_grad=False,
            layout=0,
            data_buffer_idx=0,
            allocation_info=None,
            shape_dynamism=et.TensorShapeDynamism.STATIC,
        )
    )


def value_of(stored: LoweredTensor) -> et.EValue:
    """The program's value for a delegate input or output of a payload."""
    order = list(stored.dim_order or range(len(stored.shape)))
    sizes = [0] * len(order)
    for position, dim in enumerate(order):
        sizes[dim] = stored.shape[position]
    return tensor(sizes, stored.dtype, order)


def call(*arguments: int, delegate: int = 0) -> et.Instruction:
    """An instruction that calls a delegate with these values."""
    return et.Instruction(et.DelegateCall(delegate, list(arguments)))


@dataclasses.dataclass
class Plan:
    """One method; `plan()` gives the ExecuTorch object."""

    values: list[et.EValue]
    inputs: list[int]
    outputs: list[int]
    instructions: list[et.Instruction]
    name: str = "forward"
    backend_ids: tuple[str, ...] = (BACKEND_ID,)
    operators: tuple[str, ...] = ()
    num_chains: int = 1

    def plan(self) -> et.ExecutionPlan:
        """The ExecuTorch object; delegate k's data is entry k of the program's."""
        chain = et.Chain([], [], self.instructions, None)
        delegates = [
            et.BackendDelegate(
                name, et.BackendDelegateDataReference(et.DataLocation.INLINE, index), []
            )
            for index, name in enumerate(self.backend_ids)
        ]
        return et.ExecutionPlan(
            name=self.name,
            container_meta_type=et.ContainerMetadata("", ""),
            values=self.values,
            inputs=self.inputs,
            outputs=self.outputs,
            chains=[chain] * self.num_chains,
            operators=[et.Operator(name, "out") for name in self.operators],
            delegates=delegates,
            non_const_buffer_sizes=[0],
        )


def make_pte(
    plans: Sequence[Plan],
    payloads: Sequence[bytes],
    segments: bool = True,
    version: int = 0,
    constants: Mapping[str, bytes] | None = None,
) -> bytes:
    """Serialize; `segments` places the data of delegates behind the program, as ExecuTorch does.

    `constants` becomes named data, which always lies there.
    """
    program = et.Program(
        version=version,
        execution_plan=[plan.plan() for plan in plans],
        constant_buffer=[et.Buffer(b"")],
        backend_delegate_data=[et.BackendDelegateInlineData(data) for data in payloads],
        segments=[],
        constant_segment=et.SubsegmentOffsets(0, []),
    )
    store = NamedDataStore()
    for key, data in (constants or {}).items():
        store.add_named_data(key, data, alignment=16)
    named_data = store.get_named_data_store_output() if constants else None
    file = PTEFile(program, named_data=named_data)
    return bytes(serialize_pte_binary(file, extract_delegate_segments=segments))


def pte_of(program: LoweredProgram, segments: bool = True) -> bytes:
    """A fully delegated program around one payload, arguments in the payload's order."""
    tensors = [program.tensors[i] for i in (*program.inputs, *program.outputs)]
    count = len(program.inputs)
    plan = Plan(
        values=[value_of(item) for item in tensors],
        inputs=list(range(count)),
        outputs=list(range(count, len(tensors))),
        instructions=[call(*range(len(tensors)))],
    )
    return make_pte([plan], [serialize(program)], segments)
