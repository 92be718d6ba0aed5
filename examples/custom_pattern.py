# SPDX-License-Identifier: BSD-3-Clause
"""A fused operator of one's own: `conv -> quantize -> dequantize -> hardswish` as one kernel.

Outside of the package, this file gives the pattern, its bit-exact integer model in PyTorch, and the
same model as an ExecuTorch kernel in C++ (`custom_pattern_kernel/`). `python -m
examples.custom_pattern` trains a small CNN on digits, quantizes and fuses it, compares the
accuracies of float, fake quantization and the integer model, and runs the lowered program with the
kernel, or, with `--no-kernel`, with the operator decomposed.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import math
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import executorch
import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from torch import nn
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import fused_quant
from examples.digits import data
from examples.digits.train import accuracy, train
from fused_quant.passes import DecomposeFusedQuant
from fused_quant.patterns import Operand, Reason, Role, Site, Step, parser, register_pattern

_aten = torch.ops.aten
KERNEL_SOURCES = pathlib.Path(__file__).parent / "custom_pattern_kernel"
BATCH = 50


def _rescale(value: torch.Tensor, ratio: float) -> torch.Tensor:
    """Integers times a ratio of 31 bits, rounded once, ties up."""
    mantissa, exponent = math.frexp(ratio)
    factor, shift = round(mantissa * 2**31), 31 - exponent
    return (value * factor + (1 << (shift - 1))) >> shift


def _integer_model(site: Site, tensors: Mapping[str, torch.Tensor | None]) -> torch.Tensor:
    """int8 codes in and out, [n, c, h, w]; nothing but integers on the way.

    acc = bias[o] + sum((x - zx) * w);   mid = clamp(zm + R(acc; sx * sw[o] / sm));
    v = mid - zm;   out = clamp(zo + R(v * min(max(v + 3/sm, 0), 6/sm); sm^2 / (6 * so))).
    """
    x, weight, bias = tensors["inp"], tensors["weight"], tensors["bias"]
    assert x is not None
    assert weight is not None
    inp, mid, out = site.block("inp"), site.block("mid"), site.result
    # Sums of products of 8-bit integers are exact in float64.
    acc = nn.functional.conv2d(
        (x.to(torch.int64) - inp.zero_point_value).double(),
        weight.double(),
        None if bias is None else bias.double(),
        site.attributes["stride"],
        site.attributes["padding"],
    ).to(torch.int64)
    scales = site.block("weight").scales
    scales = scales if len(scales) > 1 else scales * weight.shape[0]
    ratios = [inp.scale_value * scale / mid.scale_value for scale in scales]
    scaled = torch.stack([_rescale(acc[:, o], ratio) for o, ratio in enumerate(ratios)], 1)
    codes = (scaled + mid.zero_point_value).clamp(mid.quant_min, mid.quant_max)
    value = codes - mid.zero_point_value
    three, six = round(3.0 / mid.scale_value), round(6.0 / mid.scale_value)
    gate = (value + three).clamp(0, six)
    ratio = mid.scale_value * mid.scale_value / (6.0 * out.scale_value)
    result = _rescale(value * gate, ratio) + out.zero_point_value
    return result.clamp(out.quant_min, out.quant_max).to(out.dtype)


def _float_convolution(tensors: Any, attributes: Any) -> torch.Tensor:
    x, weight, bias = tensors["inp"], tensors["weight"], tensors["bias"]
    return nn.functional.conv2d(x, weight, bias, attributes["stride"], attributes["padding"])


def _covers(site: Site) -> Reason | None:
    """The model is written for int8."""
    dtypes = {"inp": site.dtypes["inp"], "mid": site.block("mid").dtype, "out": site.result.dtype}
    for name, dtype in dtypes.items():
        if dtype != torch.int8:
            return Reason("dtype", f"{name} dtype", str(dtype), "torch.int8")
    return None


CONV_HARDSWISH = register_pattern(
    "my_ops::conv_hardswish",
    operands=(
        Operand("inp"),
        Operand("weight", Role.WEIGHT),
        Operand("bias", Role.BIAS, optional=True),
    ),
    anchors={
        _aten.conv2d.default: parser(
            {"inp": "input", "weight": "weight", "bias": "bias"},
            {"stride": list, "padding": list, "dilation": ([1, 1],), "groups": (1,)},
        )
    },
    aten=_float_convolution,
    steps=(Step("mid", (_aten.hardswish.default,), lambda x, _: nn.functional.hardswish(x)),),
    attributes=("int[] stride", "int[] padding"),
    reference=_integer_model,
    covers=_covers,
)


class HardswishNet(nn.Module):
    """8x8 grey images to ten class scores: float32 [n, 1, 8, 8] -> [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.act = nn.Hardswish()
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.Linear(16 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores (logits)."""
        x = self.act(self.first(x))
        x = self.pool(self.act(self.second(x)))
        scores: torch.Tensor = self.classifier(torch.flatten(x, 1))
        return scores


def build_kernel(folder: pathlib.Path) -> pathlib.Path:
    """Compile the kernel in `folder` with CMake; the shared library's path."""
    package = pathlib.Path(next(iter(executorch.__path__)))
    prefix = f"-DCMAKE_PREFIX_PATH={package}"
    source, build = str(KERNEL_SOURCES), str(folder)
    for command in (["cmake", "-S", source, "-B", build, prefix], ["cmake", "--build", build]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return folder / "libcustom_pattern_kernel.so"


def load_kernel(library: pathlib.Path) -> None:
    """Register the kernel with this process's ExecuTorch. RuntimeError if it is refused."""
    import executorch.runtime  # noqa: F401  # first, so that there is one registry

    code = ctypes.CDLL(str(library)).custom_pattern_registered()
    if code != 0:
        raise RuntimeError(f"ExecuTorch refused the kernel (error {code})")


def lower(fused: GraphModule, example: torch.Tensor, kernel: bool) -> EdgeProgramManager:
    """To the edge, the rest of the program delegated; decomposed where there is no kernel."""
    program = torch.export.export(fused, (example,))
    if not kernel:
        program = DecomposeFusedQuant(keep=_is_not_ours)(program).exported_program
    return to_edge_transform_and_lower(program, partitioner=[fused_quant.FusedQuantPartitioner()])


def _is_not_ours(node: Node) -> bool:
    return not str(node.target).startswith("my_ops.")


@dataclasses.dataclass
class Report:
    """Accuracies are fractions of the test set; `identical` compares with the integer model."""

    float_accuracy: float
    fake_quantized_accuracy: float
    integer_accuracy: float
    fused_operators: int
    kernel_calls: int
    runtime_accuracy: float
    identical: bool


def run(kernel_folder: pathlib.Path | None, epochs: int = 8) -> Report:
    """Train, quantize, fuse, compare, lower and run; without a kernel if the folder is None."""
    from executorch.runtime import Runtime

    torch.set_num_threads(1)
    digits = data.load()
    torch.manual_seed(0)
    model = train(digits, epochs=epochs, progress=False, model=HardswishNet())
    batches = torch.split(digits.test_images, BATCH)
    example = batches[0]

    def score(module: Any) -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([module(images) for images in batches])

    float_scores = score(model)
    quantizer = fused_quant.default_quantizer()
    prepared = prepare_pt2e(torch.export.export(model, (example,)).module(), quantizer)
    for images in torch.split(digits.train_images[: 4 * BATCH], BATCH):
        prepared(images)
    converted = convert_pt2e(prepared)
    fake_scores = score(converted)
    fused = quantizer.fuse(converted)
    integer_scores = score(fused)

    if kernel_folder is not None:
        load_kernel(build_kernel(kernel_folder))
    edge = lower(fused, example, kernel_folder is not None)
    fused_quant.load_runtime()
    buffer = bytes(edge.to_executorch().buffer)
    method = Runtime.get().load_program(buffer).load_method("forward")
    assert method is not None
    scores = torch.cat([method.execute([images])[0].clone() for images in batches])
    labels = digits.test_labels
    calls = [str(node.target) for node in edge.exported_program().graph.nodes]
    return Report(
        float_accuracy=accuracy(float_scores, labels),
        fake_quantized_accuracy=accuracy(fake_scores, labels),
        integer_accuracy=accuracy(integer_scores, labels),
        fused_operators=sum("my_ops" in str(node.target) for node in fused.graph.nodes),
        kernel_calls=sum("my_ops" in call for call in calls),
        runtime_accuracy=accuracy(scores, labels),
        identical=torch.equal(scores, integer_scores),
    )


def main() -> int:
    """The command line; exits with 1 unless the program's bits are the integer model's."""
    description = (__doc__ or "").split("\n\n")[0]
    arguments = argparse.ArgumentParser("python -m examples.custom_pattern", None, description)
    arguments.add_argument("--build", type=pathlib.Path, default=pathlib.Path("out/custom_pattern"))
    arguments.add_argument("--no-kernel", action="store_true", help="decompose the operator")
    chosen = arguments.parse_args()
    report = run(None if chosen.no_kernel else chosen.build)
    for name, value in dataclasses.asdict(report).items():
        print(f"{name:24} {value}")
    return 0 if report.identical or chosen.no_kernel else 1


if __name__ == "__main__":
    sys.exit(main())
