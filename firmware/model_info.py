# SPDX-License-Identifier: BSD-3-Clause
"""What an image must know of a .pte ahead of time: buffer sizes, kernels, and the shape of its I/O.

Run by the firmware's build: `python model_info.py MODEL.pte FOLDER [METHOD]` writes model_config.h,
model_kernels.inc and model.json into FOLDER, for one method. The target checks everything again;
this only sizes the static buffers and chooses the kernels that are linked.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from executorch.exir import schema as et
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.scalar_type import ScalarType

from fused_quant.delegates import BACKEND_ID, shared_constants
from fused_quant.lowered import LoweredProgram
from fused_quant.native import PayloadError, memory_needs
from fused_quant.payload import deserialize

_NUMPY_DTYPES = {
    ScalarType.BYTE: "uint8",
    ScalarType.CHAR: "int8",
    ScalarType.SHORT: "int16",
    ScalarType.INT: "int32",
    ScalarType.LONG: "int64",
    ScalarType.FLOAT: "float32",
    ScalarType.BOOL: "bool",
}
_ALIGNMENT = 16
_KERNELS = Path(__file__).resolve().parent.parent / "runtime" / "kernels" / "kernels.inc"
_KERNEL = re.compile(r"FQ_KERNEL\((\w+), (\w+), \w+, \w+\)")


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """A program input or output: logical shape; stored dimension i is logical `dim_order[i]`."""

    dtype: str
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size of the dense tensor."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def to_bytes(self, array: npt.ArrayLike, what: str) -> bytes:
        """The bytes the target reads. ValueError names `what` if dtype or shape differ."""
        value = np.asarray(array)
        if value.dtype != np.dtype(self.dtype) or value.shape != self.shape:
            raise ValueError(
                f"{what}: got {value.dtype} {value.shape}, the program takes "
                f"{self.dtype} {self.shape}"
            )
        return value.transpose(self.dim_order).tobytes()

    def from_bytes(self, data: bytes) -> npt.NDArray[Any]:
        """The logical array in what the target wrote."""
        stored_shape = [self.shape[dim] for dim in self.dim_order]
        stored = np.frombuffer(data, self.dtype).reshape(stored_shape)
        return np.ascontiguousarray(stored.transpose(np.argsort(self.dim_order)))


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """One method of a fully delegated program, as an image needs it."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    delegate_inputs: int
    delegate_outputs: int
    payload_bytes: int
    arena_bytes: int
    persistent_bytes: int
    # "conv2d s8" and so on: each operator with each dtype that it reads or writes.
    operators: tuple[str, ...]
    method: str = "forward"

    def to_json(self) -> str:
        """The text of model.json."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @staticmethod
    def from_json(text: str) -> ModelInfo:
        """The inverse of `to_json`."""
        fields = json.loads(text)
        for name in ("inputs", "outputs"):
            fields[name] = tuple(
                TensorInfo(item["dtype"], tuple(item["shape"]), tuple(item["dim_order"]))
                for item in fields[name]
            )
        fields["operators"] = tuple(fields["operators"])
        return ModelInfo(**fields)


def _operators(lowered: LoweredProgram) -> tuple[str, ...]:
    found = {
        f"{op.opcode} {lowered.tensors[index].dtype}"
        for op in lowered.ops
        for index in (*op.inputs, *op.outputs)
        if index >= 0
    }
    return tuple(sorted(found))


def _tensor_info(value: et.EValue) -> TensorInfo:
    tensor = value.val
    if not isinstance(tensor, et.Tensor) or tensor.scalar_type not in _NUMPY_DTYPES:
        raise ValueError(f"program input or output is not a tensor of a known dtype: {tensor}")
    return TensorInfo(
        _NUMPY_DTYPES[tensor.scalar_type], tuple(tensor.sizes), tuple(tensor.dim_order)
    )


def read_model(pte: bytes, method: str = "forward") -> ModelInfo:
    """Describe `method` of a fully delegated program; ValueError says why it is not one."""
    if pte[4:8] != b"ET12":
        raise ValueError(f"not an ExecuTorch program: identifier {pte[4:8]!r}, expected b'ET12'")
    try:
        file = deserialize_pte_binary(pte)
    except Exception as error:  # the deserializer trusts its input and may raise anything
        raise ValueError(f"malformed program: {type(error).__name__}: {error}") from error
    program = file.program
    plans = {plan.name: plan for plan in program.execution_plan}
    if method not in plans:
        raise ValueError(f"no method {method!r} in the program, only {sorted(plans)}")
    plan = plans[method]
    calls = [instruction.instr_args for chain in plan.chains for instruction in chain.instructions]
    if len(calls) != 1 or not isinstance(calls[0], et.DelegateCall):
        kinds = [type(call).__name__ for call in calls]
        operators = [f"{operator.name}.{operator.overload}" for operator in plan.operators]
        raise ValueError(
            "the program is not fully delegated, so it cannot run without ExecuTorch: got "
            f"instructions {kinds} (operators outside the delegate: {operators}), expected one "
            "DelegateCall"
        )
    delegate = plan.delegates[calls[0].delegate_index]
    if delegate.id != BACKEND_ID:
        raise ValueError(f"the delegate is {delegate.id!r}, expected {BACKEND_ID!r}")
    payload = program.backend_delegate_data[delegate.processed.index].data
    constants = shared_constants(file.named_data)
    lowered = deserialize(payload, constants)
    try:
        memory_needs(
            payload, constants=constants
        )  # for its checks: better refused here than on the board
    except PayloadError as error:
        raise ValueError(f"the runtime refuses the payload: {error}") from error
    return ModelInfo(
        inputs=tuple(_tensor_info(plan.values[index]) for index in plan.inputs),
        outputs=tuple(_tensor_info(plan.values[index]) for index in plan.outputs),
        delegate_inputs=len(lowered.inputs),
        delegate_outputs=len(lowered.outputs),
        payload_bytes=len(payload),
        arena_bytes=lowered.arena_bytes + lowered.scratch_bytes,  # boards run scalar kernels
        persistent_bytes=lowered.persistent_bytes,
        operators=_operators(lowered),
        method=method,
    )


def _aligned_total(tensors: tuple[TensorInfo, ...]) -> int:
    return sum(-(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT for tensor in tensors)


def config_header(info: ModelInfo) -> str:
    """The text of model_config.h: sizes of the runner's static buffers."""
    values = {
        "FQ_ARENA_BYTES": info.arena_bytes,
        "FQ_PERSISTENT_BYTES": info.persistent_bytes,
        "FQ_INPUT_BYTES": _aligned_total(info.inputs),
        "FQ_OUTPUT_BYTES": _aligned_total(info.outputs),
        "FQ_PROGRAM_INPUTS": len(info.inputs),
        "FQ_PROGRAM_OUTPUTS": len(info.outputs),
        "FQ_DELEGATE_INPUTS": info.delegate_inputs,
        "FQ_DELEGATE_OUTPUTS": info.delegate_outputs,
    }
    lines = ["// Made by firmware/model_info.py from the .pte.", "#pragma once", ""]
    lines.append(f"#define FQ_METHOD {json.dumps(info.method)}")
    lines += [f"#define {name} {value}u" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def kernels_inc() -> str:
    """The list of all kernels."""
    return _KERNELS.read_text()


def kernel_list(info: ModelInfo, all_kernels: str) -> str:
    """The text of model_kernels.inc: the lines of kernels.inc that the program can need.

    A kernel is found by its operator and the dtype of one of the operator's tensors, so a line
    stays if any of them has its dtype. Lines of the preprocessor stay.
    """
    lines = ["// Made by firmware/model_info.py from kernels.inc and the .pte."]
    for line in all_kernels.splitlines():
        kernel = _KERNEL.match(line)
        if line.startswith("#") or (kernel and f"{kernel[1]} {kernel[2]}" in info.operators):
            lines.append(line)
    return "\n".join(lines) + "\n"


def write_files(info: ModelInfo, folder: Path) -> None:
    """Write model_config.h, model_kernels.inc and model.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model_config.h").write_text(config_header(info))
    (folder / "model_kernels.inc").write_text(kernel_list(info, kernels_inc()))
    (folder / "model.json").write_text(info.to_json())


def main(arguments: list[str]) -> int:
    """Write the files; returns the exit code."""
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        info = read_model(Path(arguments[0]).read_bytes(), *arguments[2:])
    except (OSError, ValueError) as error:
        print(f"error: {arguments[0]}: {error}", file=sys.stderr)
        return 1
    write_files(info, Path(arguments[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
