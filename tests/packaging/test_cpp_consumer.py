# SPDX-License-Identifier: BSD-3-Clause
"""A C++ program of somebody else: find_package(fused_quant), link, run a .pte through Module."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.packaging.install import ROOT, Installation, run
from tests.packaging.programs import permute_payload, program_with_payload

pytestmark = pytest.mark.packaging

SHAPE = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def runner(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("cpp_runner")
    configure: list[str | Path] = [
        "cmake",
        "-S",
        ROOT / "examples/cpp_runner",
        "-B",
        build,
        "-G",
        "Ninja",
    ]
    run([*configure, f"-DCMAKE_PREFIX_PATH={installation.package}"])
    run(["cmake", "--build", build])
    return build / "cpp_runner"


def test_runs_a_program(runner: Path, tmp_path: Path) -> None:
    x = (torch.arange(24) * 9 % 256 - 128).reshape(SHAPE).to(torch.int8)
    output = torch.zeros(tuple(reversed(SHAPE)), dtype=torch.int8)
    (tmp_path / "model.pte").write_bytes(program_with_payload(permute_payload(SHAPE), x, output))
    x.numpy().tofile(tmp_path / "x.bin")
    printed = run([runner, "model.pte", "x.bin"], cwd=tmp_path)
    assert re.search(r"fused_quant 0\.1\.0 for ExecuTorch 1\.5\.1", printed)
    assert "output_0.bin: 24 bytes, shape 4 3 2 1" in printed
    got = np.fromfile(tmp_path / "output_0.bin", dtype=np.int8).reshape(tuple(reversed(SHAPE)))
    np.testing.assert_array_equal(got, x.numpy().transpose(3, 2, 1, 0))


def test_refuses_a_damaged_program(runner: Path, tmp_path: Path) -> None:
    x = torch.zeros(SHAPE, dtype=torch.int8)
    program = program_with_payload(permute_payload(SHAPE), x, x.permute(3, 2, 1, 0).contiguous())
    (tmp_path / "model.pte").write_bytes(program.replace(b"FQP1", b"FQP9"))
    x.numpy().tofile(tmp_path / "x.bin")
    with pytest.raises(pytest.fail.Exception, match="FusedQuantBackend"):
        run([runner, "model.pte", "x.bin"], cwd=tmp_path)


def test_another_executorch_is_refused(installation: Installation, tmp_path: Path) -> None:
    """A build tree that has found some other ExecuTorch first gets both versions named."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.28)\n"
        "project(other LANGUAGES CXX)\n"
        "add_library(executorch::runtime SHARED IMPORTED)\n"
        "set(EXECUTORCH_BUILD_VERSION 9.8.7)\n"
        "find_package(fused_quant REQUIRED)\n"
    )
    configure: list[str | Path] = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja"]
    with pytest.raises(pytest.fail.Exception, match=r"(?s)1\.5\.1.*9\.8\.7"):
        run([*configure, f"-DCMAKE_PREFIX_PATH={installation.package}"])
