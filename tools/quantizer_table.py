# SPDX-License-Identifier: BSD-3-Clause
"""What the delegate takes of models that five quantizers have quantized, and why not the rest.

    python tools/quantizer_table.py                              # print the table
    python tools/quantizer_table.py --write docs/quantization.md
    python tools/quantizer_table.py --models ds_cnn encoder      # only some rows

The models have random weights; which nodes are claimed does not depend on the weights.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import sys
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer
from tqdm import tqdm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import fused_quant
from examples import zoo
from examples.mlperf_tiny import models as mlperf_tiny
from fused_quant.explain import Explanation
from tests.support import foreign
from tools import support_table

BEGIN = "<!-- quantizer-table:begin -->"
END = "<!-- quantizer-table:end -->"
HEADER = ("Model", "Quantizer", "Claimed", "Delegate calls", "Left outside, and why")

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet8": (lambda: mlperf_tiny.load_resnet8(trained=False), (1, 3, 32, 32)),
    "ds_cnn": (lambda: mlperf_tiny.load_ds_cnn(trained=False), (1, 1, 49, 10)),
    "mobilenet_v2": (zoo.MobileNetV2, (1, 3, 64, 64)),
    "encoder": (zoo.Encoder, (1, 12, 32)),
}
QUANTIZERS: dict[str, Callable[[], Quantizer]] = {
    "fused_quant": fused_quant.default_quantizer,
    "XNNPACK": foreign.xnnpack_quantizer,
    "x86 inductor": foreign.x86_inductor_quantizer,
    "Arm TOSA": foreign.arm_quantizer,
    "Cortex-M": foreign.cortex_m_quantizer,
}


class QuantizerError(RuntimeError):
    """Another project's quantizer raised."""


def explained(model: str, quantizer: str) -> Explanation:
    """The explanation of one combination. Raises QuantizerError."""
    build, shape = MODELS[model]
    torch.manual_seed(0)
    module = build().eval()
    inputs: list[tuple[Tensor]] = [(torch.randn(shape),) for _ in range(2)]
    exported = foreign.unguarded(module, *inputs[0])
    try:
        prepared = prepare_pt2e(exported, QUANTIZERS[quantizer]())
    except ValueError as error:
        raise QuantizerError(str(error)) from error
    with torch.no_grad():
        for sample in inputs:
            prepared(*sample)
    return fused_quant.explain(torch.export.export(convert_pt2e(prepared), inputs[0]))


def _left(explanation: Explanation) -> str:
    counts = collections.Counter(
        (row["operator"].removesuffix(".default"), row["code"]) for row in explanation.rows()
    )
    return ", ".join(f"{n} {operator} ({code})" for (operator, code), n in counts.items()) or "none"


def row(model: str, quantizer: str) -> tuple[str, ...]:
    """One line of the table."""
    try:
        found = explained(model, quantizer)
    except QuantizerError as error:
        return (model, quantizer, "", "", f"the quantizer does not take the graph: {error}")
    total = found.claimed + len(found.computing)
    counts = (f"{found.claimed} of {total}", str(found.partitions))
    return (model, quantizer, *counts, _left(found))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table."""
    lines = [HEADER, ["---"] * len(HEADER), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main() -> int:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=pathlib.Path, help="the file whose table to replace")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    pairs = [(model, quantizer) for model in options.models for quantizer in QUANTIZERS]
    text = table([row(*pair) for pair in tqdm(pairs)])
    if options.write is None:
        print(text)
    else:
        page = options.write.read_text()
        options.write.write_text(support_table.replaced(page, text, BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())
