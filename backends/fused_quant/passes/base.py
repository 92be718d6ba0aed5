# SPDX-License-Identifier: BSD-3-Clause
"""What the public passes share: one rewrite, applied to a GraphModule or to an ExportedProgram."""

from __future__ import annotations

import abc
from typing import Any, overload

from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from fused_quant import graph
from fused_quant.ops import registry
from fused_quant.passes.program import relifted


class GraphPass(ExportedProgramPassBase):
    """A graph rewrite for every place where graphs are rewritten.

    `pass_(gm)` changes a GraphModule in place (constants are its attributes: after convert_pt2e,
    fuse, or `program.module()`) and returns a PassResult. `pass_(program)` leaves the program alone
    and returns an ExportedProgramPassResult; so does `edge.transform([pass_])`, where constants are
    inputs of the graph and operators are edge operators.
    """

    @abc.abstractmethod
    def rewrite(self, gm: GraphModule) -> bool:
        """Change a graph whose constants are attributes in place; True if anything changed."""

    @overload
    def __call__(self, graph_or_program: GraphModule) -> PassResult: ...
    @overload
    def __call__(self, graph_or_program: ExportedProgram) -> ExportedProgramPassResult: ...

    def __call__(self, graph_or_program: Any) -> Any:
        """Apply the pass. ValueError for anything but a GraphModule or an ExportedProgram."""
        if isinstance(graph_or_program, ExportedProgram):
            return self.call(graph_or_program)
        if not isinstance(graph_or_program, GraphModule):
            got = type(graph_or_program).__name__
            raise ValueError(f"got {got}, supported: GraphModule and ExportedProgram")
        registry.load()
        modified = self.rewrite(graph_or_program)
        if modified:
            graph.drop_unread_constants(graph_or_program)
            graph_or_program.graph.lint()
            graph_or_program.recompile()
        return PassResult(graph_or_program, modified)

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Apply the pass to a copy of a program."""
        registry.load()
        gm = graph.unlifted(exported_program)
        if not self.rewrite(gm):
            return ExportedProgramPassResult(exported_program, False)
        return ExportedProgramPassResult(relifted(exported_program, gm), True)
