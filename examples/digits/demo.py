# SPDX-License-Identifier: BSD-3-Clause
"""The main job on digits: train, quantize, fuse, lower, run everywhere, compare."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import time

import torch
from tabulate import tabulate

from examples import pipeline
from examples.digits import data
from examples.digits.train import accuracy, train
from fused_quant import payload
from fused_quant.native import memory_needs

CALIBRATION_IMAGES = 128


@dataclasses.dataclass
class BoardFigures:
    """What the run on a board adds; shares are of all output elements."""

    name: str
    accuracy: float
    identical: float
    identical_to_host: float
    flash_bytes: int
    ram_bytes: int
    instructions_per_inference: int


@dataclasses.dataclass
class Report:
    """Figures of one run. Accuracies and shares are fractions; sizes are in bytes."""

    samples: int
    parameters: int
    float_accuracy: float
    eager_accuracy: float
    host_accuracy: float
    host_identical: float
    delegate_calls: int
    pte_bytes: int
    payload_bytes: int
    arena_bytes: int
    persistent_bytes: int
    board: BoardFigures | None

    @property
    def identical(self) -> bool:
        """Whether everything that ran gave the same bits."""
        board = self.board is None or self.board.identical == 1.0
        return self.host_identical == 1.0 and board

    def as_json(self) -> str:
        """The figures as one JSON object; `board` is null when no board was run."""
        return json.dumps({**dataclasses.asdict(self), "identical": self.identical}, indent=2)

    def as_table(self) -> str:
        """The figures for people."""
        rows = [
            ("test images", f"{self.samples}"),
            ("parameters", f"{self.parameters:,}"),
            ("accuracy, float", f"{self.float_accuracy:.2%}"),
            ("accuracy, int8, PyTorch (fused program)", f"{self.eager_accuracy:.2%}"),
            ("accuracy, int8, host (ExecuTorch)", f"{self.host_accuracy:.2%}"),
            ("outputs bit-identical, PyTorch and host", f"{self.host_identical:.2%}"),
            ("delegate calls in digits.pte", f"{self.delegate_calls}"),
            ("digits.pte, bytes", f"{self.pte_bytes:,}"),
            ("payload, bytes", f"{self.payload_bytes:,}"),
            ("arena, bytes (activations and scratch)", f"{self.arena_bytes:,}"),
            ("persistent memory, bytes on this machine", f"{self.persistent_bytes:,}"),
        ]
        board = self.board
        if board is None:
            rows.append(("board", "not run (--no-firmware)"))
        else:
            name = board.name
            rows += [
                (f"accuracy, int8, {name}", f"{board.accuracy:.2%}"),
                (f"outputs bit-identical, PyTorch and {name}", f"{board.identical:.2%}"),
                (f"outputs bit-identical, host and {name}", f"{board.identical_to_host:.2%}"),
                ("firmware image, flash bytes", f"{board.flash_bytes:,}"),
                ("firmware image, RAM bytes", f"{board.ram_bytes:,}"),
                ("instructions per inference", f"{board.instructions_per_inference:,}"),
            ]
        table: str = tabulate(rows, headers=("digits", "result"), disable_numparse=True)
        return table


class _Steps:
    """Prints each step and the seconds it took to stderr, around the progress bars."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def done(self, text: str) -> None:
        now = time.monotonic()
        print(f"{now - self._start:6.1f} s  {text}", file=sys.stderr, flush=True)
        self._start = now


def run(out: pathlib.Path, board: str | None, samples: int | None = None) -> Report:
    """Train, lower to `out`/digits.pte, run `samples` test images (all of them if None), compare.

    `board` None leaves the firmware out. Progress goes to stderr.
    """
    torch.set_num_threads(1)
    steps = _Steps()
    digits = data.load()
    images = list(torch.split(digits.test_images[:samples], 1))
    labels = digits.test_labels[: len(images)]
    model = train(digits)
    float_scores = pipeline.run_eager(model, images, "float")
    steps.done(f"trained on {len(digits.train_labels)} images")

    example = images[0]
    calibration = torch.split(digits.train_images[:CALIBRATION_IMAGES], 1)
    fused = pipeline.fuse(pipeline.quantize(model, example, calibration))
    steps.done(f"quantized with {len(calibration)} images, and fused")

    program = pipeline.to_edge(fused, example).to_executorch()
    out.mkdir(parents=True, exist_ok=True)
    pte = out / "digits.pte"
    pte.write_bytes(program.buffer)
    steps.done(f"lowered to {pte}")

    eager_scores = pipeline.run_eager(fused, images, "PyTorch")
    steps.done("ran the fused program in PyTorch")
    host_scores = pipeline.run_host(pte, images)
    steps.done("ran digits.pte on this machine")

    figures = None
    if board is not None:
        ran = pipeline.run_board(pte, images, board)
        figures = BoardFigures(
            name=board,
            accuracy=accuracy(ran.outputs, labels),
            identical=pipeline.same_bits(eager_scores, ran.outputs),
            identical_to_host=pipeline.same_bits(host_scores, ran.outputs),
            flash_bytes=ran.flash_bytes,
            ram_bytes=ran.ram_bytes,
            instructions_per_inference=ran.instructions,
        )
        steps.done(f"ran digits.pte on {board} in QEMU")

    payloads = payload.extract_payloads(program.buffer)
    needs = memory_needs(payloads[0])
    return Report(
        samples=len(images),
        parameters=sum(p.numel() for p in model.parameters()),
        float_accuracy=accuracy(float_scores, labels),
        eager_accuracy=accuracy(eager_scores, labels),
        host_accuracy=accuracy(host_scores, labels),
        host_identical=pipeline.same_bits(eager_scores, host_scores),
        delegate_calls=len(payloads),
        pte_bytes=len(program.buffer),
        payload_bytes=sum(len(p) for p in payloads),
        arena_bytes=needs.arena_bytes,
        persistent_bytes=needs.persistent_bytes,
        board=figures,
    )
