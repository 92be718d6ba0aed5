# SPDX-License-Identifier: BSD-3-Clause
"""The table of docs/models.md: `python -m examples.zoo.report`."""

from __future__ import annotations

import copy

import torch
from tabulate import tabulate
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import fused_quant
from examples.pipeline import run_eager, signal_to_noise
from examples.zoo.small import SMALL, make, quantizer

_CALIBRATION, _TESTS = 8, 16
_HEADERS = ("Network", "Input", "Parameters", "Left outside", "SQNR q/dq, dB", "SQNR fused, dB")


def row(name: str) -> tuple[str, ...]:
    """One network: quantized, fused, claimed, and compared with float on inputs not calibrated."""
    model, inputs = make(name, _CALIBRATION + _TESTS)
    example = (inputs[0],)
    prepared = prepare_pt2e(torch.export.export(model, example).module(), quantizer())
    with torch.no_grad():
        for x in inputs[:_CALIBRATION]:
            prepared(x)
    raw = convert_pt2e(prepared)
    fused = fused_quant.fuse(copy.deepcopy(raw))
    computing = fused_quant.explain(torch.export.export(fused, example)).computing
    reference, simulated, integers = (
        run_eager(module, inputs[_CALIBRATION:], name) for module in (model, raw, fused)
    )
    return (
        f"`{name}`",
        "x".join(map(str, SMALL[name].shape)),
        f"{sum(p.numel() for p in model.parameters()):,}",
        str(len(computing)),
        f"{signal_to_noise(reference, simulated):.1f}",
        f"{signal_to_noise(reference, integers):.1f}",
    )


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print(tabulate([row(name) for name in SMALL], headers=_HEADERS, tablefmt="github"))


if __name__ == "__main__":
    main()
