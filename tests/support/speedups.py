# SPDX-License-Identifier: BSD-3-Clause
"""Work that torch and ExecuTorch repeat for each of hundreds of tiny programs, done once or not.

None of this changes a result; where a name is gone in another version, nothing is replaced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.export.decomp_utils
import torch.export.exported_program
from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils
from torchao.quantization.pt2e import qat_utils


def remember_composite_operators() -> None:
    """List torch's composite operators once. A list takes 0.3 s, and no test adds an operator."""
    name = "_collect_all_valid_cia_ops"
    modules = (torch.export.decomp_utils, torch.export.exported_program)
    if all(hasattr(module, name) for module in modules):
        remembered = functools.cache(getattr(modules[0], name))
        for module in modules:
            setattr(module, name, remembered)


def skip_batch_norm_patterns() -> None:
    """XNNPACK's quantizer exports 12 conv-batch_norm patterns a graph (7 s) even if it has none."""
    name = "_do_annotate_conv_bn"
    annotate = getattr(xnnpack_quantizer_utils, name, None)
    if annotate is None:
        return

    @functools.wraps(annotate)
    def only_if_needed(graph_module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        targets = (str(node.target) for node in graph_module.graph.nodes)
        if not any("batch_norm" in target for target in targets):
            return []
        return annotate(graph_module, *args, **kwargs)

    setattr(xnnpack_quantizer_utils, name, only_if_needed)


def skip_patterns_of_other_convolutions() -> None:
    """Conversion after training exports dozens of patterns (1 s each) a kind of convolution."""
    for name in ("_fuse_conv_bn_qat_helper", "_fold_conv_bn_qat_helper"):
        rewrite = getattr(qat_utils, name, None)
        if rewrite is not None:
            setattr(qat_utils, name, _only_for_its_convolution(rewrite))


def _only_for_its_convolution(rewrite: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(rewrite)
    def only_if_needed(
        graph_module: torch.fx.GraphModule, conv_fn: Any, *args: Any, **kwargs: Any
    ) -> Any:
        targets = (str(node.target) for node in graph_module.graph.nodes)
        if not any(f"aten.{conv_fn.__name__}." in target for target in targets):
            return graph_module
        return rewrite(graph_module, conv_fn, *args, **kwargs)

    return only_if_needed


@functools.cache
def install() -> None:
    """All of it, for this process."""
    remember_composite_operators()
    skip_batch_norm_patterns()
    skip_patterns_of_other_convolutions()


def pytest_configure() -> None:
    """As a plugin (`-p tests.support.speedups`), for tests that are not ours."""
    install()
