# SPDX-License-Identifier: BSD-3-Clause
"""Build a .pte into an image for a board, and run it.

    image = build_runner("mps2-an386", "model.pte")
    result = run(image, [[x] for x in inputs])

`inputs` holds one list of arrays per inference, one array per program input, with the logical shape
and dtype of the program; so do `result.outputs`. Everything that goes wrong is a BoardError.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from firmware.boards import BOARDS, find_board
from firmware.cases import Case, write_cases
from firmware.emulator import Log, run_image
from firmware.model_info import ModelInfo, read_model, write_files
from firmware.tools import BoardError, find_tool, run_tool

__all__ = [
    "BOARDS",
    "BoardError",
    "CaseResult",
    "Image",
    "RunResult",
    "build_image",
    "build_runner",
    "run",
    "run_case_file",
    "run_cases",
    "section_sizes",
]

_ROOT = Path(__file__).resolve().parent.parent
_FLASH_SECTIONS = (".text", ".rodata", ".fq_model", ".data")
_RAM_SECTIONS = (
    ".data",
    ".bss",
    ".fq_arena",
    ".fq_persistent",
    ".fq_io",
    ".fq_stack",
    ".fq_fault_stack",
)

Arrays = Sequence[npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Image:
    """An image for a board. Sizes are of its linked sections, in bytes."""

    board: str
    elf: Path
    sections: dict[str, int]
    info: ModelInfo | None = None

    def _total(self, *names: str) -> int:
        return sum(self.sections.get(name, 0) for name in names)

    @property
    def flash_bytes(self) -> int:
        """Code, constants, initial values of data, and the .pte."""
        return self._total(*_FLASH_SECTIONS)

    @property
    def model_bytes(self) -> int:
        """The .pte's share of the flash."""
        return self._total(".fq_model")

    @property
    def code_bytes(self) -> int:
        """Flash without the .pte."""
        return self.flash_bytes - self.model_bytes

    @property
    def ram_bytes(self) -> int:
        """All RAM: the parts below and `other_ram_bytes`."""
        return self._total(*_RAM_SECTIONS)

    @property
    def arena_bytes(self) -> int:
        """Activations and scratch."""
        return self._total(".fq_arena")

    @property
    def persistent_bytes(self) -> int:
        """Reserved for the plan; the payload's bound for any target."""
        return self._total(".fq_persistent")

    @property
    def io_bytes(self) -> int:
        """Program inputs and outputs."""
        return self._total(".fq_io")

    @property
    def stack_bytes(self) -> int:
        """Reserved stack, with the fault handler's."""
        return self._total(".fq_stack", ".fq_fault_stack")

    @property
    def other_ram_bytes(self) -> int:
        """Data of the program itself."""
        return self._total(".data", ".bss")


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What a run of the runner gave. Instructions are executed instructions, not cycles."""

    outputs: list[list[npt.NDArray[Any]]]
    instructions_min: int
    instructions_max: int
    init_instructions: int
    stack_bytes: int
    init_stack_bytes: int
    arena_bytes: int
    persistent_bytes: int
    kernels: tuple[str, ...]
    log: str

    @property
    def instructions(self) -> int:
        """Instructions of the longest inference."""
        return self.instructions_max


@dataclasses.dataclass(frozen=True)
class CaseResult:
    """How one case of fq_tester went; `report` holds its report lines' fields."""

    name: str
    passed: bool
    report: dict[str, str]

    @property
    def instructions(self) -> int:
        """Instructions of the first execution."""
        return int(self.report["instructions"])


def default_build_dir(board: str) -> Path:
    """Where images are built unless said otherwise: build/firmware/<board>.

    The environment variable FUSED_QUANT_FIRMWARE_BUILD_DIR names another place for build/firmware.
    """
    base = os.environ.get("FUSED_QUANT_FIRMWARE_BUILD_DIR")
    return Path(base or _ROOT / "build" / "firmware").resolve() / board


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time builds in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def section_sizes(board: str, elf: Path) -> dict[str, int]:
    """Bytes of every section of an image, by name."""
    sizes = {}
    size = find_tool(f"{find_board(board).tools}size")
    for line in run_tool([size, "-A", elf]).splitlines():
        words = line.split()
        if len(words) == 3 and words[0].startswith("."):
            sizes[words[0]] = int(words[1])
    return sizes


def _configure_and_build(
    board: str, build_dir: Path, target: str, options: dict[str, str], build_type: str
) -> None:
    find_tool(f"{find_board(board).tools}g++")
    definitions = {
        "CMAKE_TOOLCHAIN_FILE": str(_ROOT / "firmware" / "boards" / f"{board}.cmake"),
        "CMAKE_MAKE_PROGRAM": find_tool("ninja"),
        "CMAKE_BUILD_TYPE": build_type,
        "FUSED_QUANT_PRECOMPILE": "ON",
        "Python3_EXECUTABLE": sys.executable,
        **options,
    }
    cmake = find_tool("cmake")
    # The build itself notices changed CMake files; only other definitions need a configuration.
    stamp = build_dir / "definitions.json"
    known: dict[str, str] = json.loads(stamp.read_text()) if stamp.exists() else {}
    if not known.items() >= definitions.items():
        stamp.unlink(missing_ok=True)
        arguments = [f"-D{name}={value}" for name, value in definitions.items()]
        run_tool([cmake, "-S", _ROOT, "-B", build_dir, "-G", "Ninja", *arguments])
        stamp.write_text(json.dumps({**known, **definitions}))
    run_tool([cmake, "--build", build_dir, "--target", target])


def _keep(elf: Path, folder: Path) -> Path:
    """Copy an image to where no later build changes it."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{elf.name}.{os.getpid()}"
    shutil.copy2(elf, fresh)
    return fresh.replace(folder / elf.name)


def build_image(
    board: str,
    target: str,
    build_dir: Path | str | None = None,
    stack_bytes: int = 4096,
    build_type: str = "Release",
) -> Image:
    """Build `fq_tester` or `fq_fault`."""
    find_board(board)
    folder = Path(build_dir or default_build_dir(board))
    options = {"FQ_STACK_BYTES": str(stack_bytes)}
    kept = folder / "images" / f"{target}-{stack_bytes}-{build_type}"
    with _locked(folder):
        _configure_and_build(board, folder, target, options, build_type)
        elf = _keep(folder / "firmware" / f"{target}.elf", kept)
    return Image(board, elf, section_sizes(board, elf))


def build_runner(
    board: str,
    pte_path: Path | str,
    build_dir: Path | str | None = None,
    stack_bytes: int = 4096,
    build_type: str = "Release",
    method: str = "forward",
) -> Image:
    """Build a .pte into an image of its own, in which one of its methods runs in place from flash.

    `build_type` MinSizeRel makes the code smaller and slower. Images of several models and methods
    share a build directory and stay valid. BoardError if there is no such method or it is not fully
    delegated to fused_quant.
    """
    find_board(board)
    pte = Path(pte_path).resolve()
    if not pte.is_file():
        raise BoardError(f"no such file: {pte}")
    folder = Path(build_dir or default_build_dir(board))
    choices = repr((stack_bytes, build_type, method)).encode()
    key = hashlib.sha256(pte.read_bytes() + choices).hexdigest()
    kept = folder.resolve() / "images" / f"{pte.stem}-{key[:12]}"
    try:
        info = read_model(pte.read_bytes(), method)
    except ValueError as error:
        raise BoardError(f"{pte}: {error}") from error
    options = {
        "FQ_MODEL": str(pte),
        "FQ_MODEL_INFO": str(kept),
        "FQ_STACK_BYTES": str(stack_bytes),
    }
    with _locked(folder):
        write_files(info, kept)
        _configure_and_build(board, folder, "fq_runner", options, build_type)
        elf = _keep(folder / "firmware" / "fq_runner.elf", kept)
    return Image(board, elf, section_sizes(board, elf), info)


def _pack_inputs(info: ModelInfo, inputs: Sequence[Arrays]) -> bytes:
    parts = []
    for n, arrays in enumerate(inputs):
        if len(arrays) != len(info.inputs):
            raise ValueError(
                f"inference {n}: got {len(arrays)} inputs, the program takes {len(info.inputs)}"
            )
        for i, (tensor, array) in enumerate(zip(info.inputs, arrays, strict=True)):
            parts.append(tensor.to_bytes(array, f"inference {n}, input {i}"))
    return b"".join(parts)


def _unpack_outputs(info: ModelInfo, data: bytes, count: int) -> list[list[npt.NDArray[Any]]]:
    size = sum(tensor.nbytes for tensor in info.outputs)
    if len(data) != count * size:
        raise BoardError(f"the image wrote {len(data)} bytes of outputs, expected {count * size}")
    outputs = []
    position = 0
    for _ in range(count):
        arrays = []
        for tensor in info.outputs:
            arrays.append(tensor.from_bytes(data[position : position + tensor.nbytes]))
            position += tensor.nbytes
        outputs.append(arrays)
    return outputs


def run(
    image: Image,
    inputs: Sequence[Arrays],
    timeout_s: float = 600.0,
    on_progress: Callable[[int], None] | None = None,
) -> RunResult:
    """Run one inference per entry of `inputs` on the emulated board.

    `on_progress` is told how many inferences are done, about a hundred times. ValueError for inputs
    that do not fit the program, BoardError for a run that did not end well.
    """
    if image.info is None:
        raise ValueError(f"{image.elf} is not a runner image")
    if not inputs:
        raise ValueError("there are no inputs to run")

    def on_line(fields: dict[str, str]) -> None:
        if on_progress is not None and "done" in fields:
            on_progress(int(fields["done"]))

    packed = _pack_inputs(image.info, inputs)
    with tempfile.TemporaryDirectory(prefix="fq_run_") as name:
        folder = Path(name)
        (folder / "inputs.bin").write_bytes(packed)
        log = run_image(image.board, image.elf, folder, [str(len(inputs))], timeout_s, on_line)
        if log.verdict != "ok":
            raise BoardError(f"{image.elf.name} on {image.board} failed:\n{log.text}")
        written = (folder / "outputs.bin").read_bytes()
    outputs = _unpack_outputs(image.info, written, len(inputs))
    return RunResult(
        outputs=outputs,
        instructions_min=log.value("instructions_min"),
        instructions_max=log.value("instructions_max"),
        init_instructions=log.value("init_instructions"),
        stack_bytes=log.value("stack_bytes"),
        init_stack_bytes=log.value("init_stack_bytes"),
        arena_bytes=log.value("arena_bytes"),
        persistent_bytes=log.value("persistent_bytes"),
        kernels=tuple(line["kernel"] for line in log.lines if "step" in line),
        log=log.text,
    )


def _case_results(names: Sequence[str], log: Log) -> list[CaseResult]:
    reports: list[dict[str, str]] = [{} for _ in names]
    for line in log.lines:
        if "case" in line:
            reports[int(line["case"])].update(line)
    missing = [name for name, report in zip(names, reports, strict=True) if not report]
    if missing or any("passed" not in report for report in reports):
        raise BoardError(f"fq_tester did not finish all cases (no report: {missing}):\n{log.text}")
    return [
        CaseResult(name, report["passed"] == "1", report)
        for name, report in zip(names, reports, strict=True)
    ]


def run_case_file(
    board: str,
    cases: Path,
    names: Sequence[str],
    build_dir: Path | str | None = None,
    timeout_s: float = 600.0,
) -> list[CaseResult]:
    """`run_cases` of a file that `write_cases` has written; `names` are the cases' in order."""
    image = build_image(board, "fq_tester", build_dir)
    with tempfile.TemporaryDirectory(prefix="fq_cases_") as name:
        folder = Path(name)
        (folder / "cases.bin").symlink_to(cases.resolve())
        log = run_image(board, image.elf, folder, (), timeout_s)
    results = _case_results(names, log)
    if (log.verdict == "ok") != all(result.passed for result in results):
        raise BoardError(f"fq_tester's verdict and its cases disagree:\n{log.text}")
    return results


def run_cases(
    board: str,
    cases: Sequence[Case],
    build_dir: Path | str | None = None,
    timeout_s: float = 600.0,
) -> list[CaseResult]:
    """Run payloads on the board in one go and compare their outputs there, bit for bit.

    Returns one result per case; a difference is a result, a run without a good end a BoardError.
    """
    with tempfile.TemporaryDirectory(prefix="fq_cases_") as name:
        path = Path(name) / "cases.bin"
        write_cases(path, cases)
        return run_case_file(board, path, [case.name for case in cases], build_dir, timeout_s)
