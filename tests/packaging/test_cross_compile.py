# SPDX-License-Identifier: BSD-3-Clause
"""The ExecuTorch adapter compiles for Cortex-M against nothing but the wheel's headers.

A target's ExecuTorch library comes from its user's own build; what can be checked here is that the
adapter needs nothing that such a target lacks.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.packaging.install import ROOT, package_folder, run

ADAPTER = ROOT / "runtime/executorch"
COMPILER = "arm-none-eabi-g++"

# What the adapter may ask of the C and C++ libraries; ExecuTorch's own and the core's names aside.
# No way to get memory is among them. (delete is in the virtual destructor, which nothing calls;
# abort and strcmp come from inline functions of ExecuTorch's headers.)
LIBRARY_SYMBOLS = {"memcmp", "memcpy", "memset", "strcmp", "abort", "_ZdlPvj", "__cxa_pure_virtual"}


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_adapter_compiles(cpu: str, tmp_path: Path) -> None:
    include = package_folder("executorch") / "include"
    flatc = package_folder("flatc")
    run([flatc / "bin/flatc", "--cpp", "-o", tmp_path, ROOT / "schema/fused_quant.fbs"])
    flags = ["-std=c++17", "-Os", "-mthumb", f"-mcpu={cpu}", "-fno-exceptions", "-fno-rtti"]
    flags += ["-fno-threadsafe-statics", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    flags += ["-DC10_USING_CUSTOM_GENERATED_MACROS", f"-I{ROOT / 'runtime'}"]
    flags += ['-DFUSED_QUANT_VERSION="0"', '-DFUSED_QUANT_EXECUTORCH_VERSION="0"']
    for folder in (
        include,
        include / "executorch/runtime/core/portable_type/c10",
        tmp_path,
        flatc / "include",
    ):
        flags += ["-isystem", str(folder)]
    sources = sorted(ADAPTER.glob("*.cpp"))
    assert sources
    objects = []
    for source in sources:
        objects.append(tmp_path / f"{source.stem}.o")
        run([COMPILER, *flags, "-c", source, "-o", objects[-1]])
    undefined = run(["arm-none-eabi-nm", "--undefined-only", *objects])
    symbols = {line.split()[-1] for line in undefined.splitlines() if " U " in line}
    foreign = {s for s in symbols if "executorch" not in s and "fused_quant" not in s}
    assert {s for s in foreign if not s.startswith("__aeabi_")} <= LIBRARY_SYMBOLS
