# SPDX-License-Identifier: BSD-3-Clause
"""Loading and running: twice at once, often, from threads, with wrong arguments, damaged."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import executorch
import numpy as np
import pytest
import torch
from executorch.runtime import Runtime
from torch import Tensor, nn
from torch.nn import functional

from fused_quant import native, payload
from fused_quant.lower import quantize
from fused_quant.runtime import BACKEND_LIBRARY, library_path
from tests.e2e import routes

torch.set_num_threads(1)


class _Branches(nn.Module):
    """A long skip, two branches joining late, views, pools: tensors that live long and short."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.second = nn.Conv2d(channels, channels, 1)
        self.linear = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        skip = functional.relu(self.first(x))
        left = self.second(functional.relu(self.depthwise(skip)))
        right = functional.avg_pool2d(functional.max_pool2d(skip, 3, 1, 1), 3, 1, 1)
        joined = functional.relu(left + right + skip)
        return self.linear(joined.mean((2, 3)))


class _Model:
    """A fused model with its program, an input and the right output."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], channels_last: bool) -> None:
        generator = torch.Generator().manual_seed(3)
        self.x = torch.randn(shape, generator=generator)
        if channels_last:
            self.x = self.x.to(memory_format=torch.channels_last)
        self.fused = quantize(module, (self.x,), [self.x], progress=False)
        edge = routes.lowered(self.fused, (self.x,), routes.TRANSFORM)
        self.pte = bytes(edge.to_executorch().buffer)
        self.expected = routes.eager(self.fused, (self.x,))


@functools.cache
def _model(name: str) -> _Model:
    torch.manual_seed(0)
    if name == "branches":
        return _Model(_Branches(8), (2, 3, 12, 10), channels_last=False)
    if name == "channels_last":
        return _Model(nn.Conv2d(2, 3, 2), (1, 2, 4, 5), channels_last=True)
    if name == "contiguous":
        return _Model(nn.Conv2d(2, 3, 2), (1, 2, 4, 5), channels_last=False)
    return _Model(nn.Conv2d(2, 32, 3, padding=1), (1, 2, 32, 32), channels_last=False)


def test_repeat_two_programs_loaded_at_once() -> None:
    models = [_model("branches"), _model("contiguous")]
    methods = [routes.load(model.pte) for model in models]
    for _ in range(10):
        for model, method in zip(models, methods, strict=True):
            routes.assert_same_bits(routes.execute(method, (model.x,)), model.expected)


def test_repeat_loaded_and_destroyed_100_times() -> None:
    """A loaded program has buffers of more than 100 KiB: keeping one in ten would show."""
    model = _model("wide")
    before = 0
    for round_ in range(100):
        routes.assert_same_bits(routes.execute(routes.load(model.pte), (model.x,)), model.expected)
        if round_ == 20:
            before = _resident_bytes()
    assert _resident_bytes() - before < 2**20


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_repeat_executed_1000_times_in_flat_memory() -> None:
    """The output alone has 128 KiB: keeping one run in fifty would show."""
    model = _model("wide")
    method = routes.load(model.pte)
    assert model.expected[0].nbytes > 100_000
    before = 0
    for round_ in range(1000):
        (got,) = method.execute([model.x])
        if round_ % 50 == 0:
            assert torch.equal(got, model.expected[0])
        if round_ == 100:
            before = _resident_bytes()
    assert _resident_bytes() - before < 2 * 2**20


def test_memory_result_does_not_depend_on_what_the_arena_held() -> None:
    model = _model("branches")
    (data,) = payload.extract_payloads(model.pte)
    for fill in (0x00, 0x80, 0xFF):
        plan = native.Plan(data, arena_fill=fill)
        for _ in range(3):
            (got,) = plan.run([model.x.numpy()])
            assert np.array_equal(got, model.expected[0].numpy())
    kept = native.Plan(data, arena_fill=None)
    for _ in range(20):
        assert np.array_equal(kept.run([model.x.numpy()])[0], model.expected[0].numpy())


def test_capacity_every_arena_size() -> None:
    """Too little memory is an error, enough of it is enough, and nothing lies between."""
    (data,) = payload.extract_payloads(_model("contiguous").pte)
    needs = native.memory_needs(data)
    x = _model("contiguous").x.numpy()
    for size in range(needs.arena_bytes + 65):
        if size < needs.arena_bytes:
            with pytest.raises(native.PayloadError) as raised:
                native.Plan(data, arena_bytes=size)
            assert raised.value.code == native.Code.MEMORY_ALLOCATION_FAILED
        else:
            (got,) = native.Plan(data, arena_bytes=size).run([x])
            assert np.array_equal(got, _model("contiguous").expected[0].numpy())


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="ExecuTorch 1.5.1 copies the bytes of an input into planned memory whatever their "
    "order, with or without a delegate, which sees only the copy; packaging/test_delegate.py "
    "tests what the delegate can see",
)
@pytest.mark.parametrize("name", ["contiguous", "channels_last"])
def test_layout_other_dim_order_is_never_silently_wrong(name: str) -> None:
    model = _model(name)
    other = torch.contiguous_format if name == "channels_last" else torch.channels_last
    x = model.x.to(memory_format=other)
    assert x.dim_order() != model.x.dim_order()
    method = routes.load(model.pte)
    routes.assert_same_bits(routes.execute(method, (model.x,)), model.expected)
    try:
        got = routes.execute(method, (x,))
    except RuntimeError:
        return
    routes.assert_same_bits(got, model.expected)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x[:1],
        lambda x: torch.cat([x, x]),
        lambda x: x[..., :-1].contiguous(),
        lambda x: x.transpose(2, 3).contiguous(),
        lambda x: x.unsqueeze(0),
        lambda x: x.double(),
        lambda x: x.to(torch.int8),
    ],
    ids=["batch", "larger-batch", "width", "transposed", "rank", "float64", "int8"],
)
def test_shape_or_dtype_of_another_model_is_an_error(wrong: object) -> None:
    model = _model("branches")
    method = routes.load(model.pte)
    assert callable(wrong)
    with pytest.raises(RuntimeError):
        routes.execute(method, (wrong(model.x),))
    routes.assert_same_bits(routes.execute(method, (model.x,)), model.expected)


@pytest.mark.parametrize("count", [0, 2])
def test_number_of_inputs_is_checked(count: int) -> None:
    model = _model("branches")
    with pytest.raises(RuntimeError):
        routes.load(model.pte).execute([model.x] * count)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 0.99])
def test_malformed_truncated_program_is_refused(share: float, tmp_path: Path) -> None:
    pte = _model("branches").pte
    cut = pte[: int(len(pte) * share)]
    with pytest.raises(RuntimeError):
        routes.load(cut)
    path = tmp_path / "cut.pte"
    path.write_bytes(cut)
    with pytest.raises(RuntimeError):
        Runtime.get().load_program(path).load_method("forward")


def test_lifetime_loaded_from_a_file(tmp_path: Path) -> None:
    model = _model("branches")
    path = tmp_path / "model.pte"
    path.write_bytes(model.pte)
    routes.load(model.pte)  # the backend is there
    method = Runtime.get().load_program(path).load_method("forward")
    for _ in range(3):
        routes.assert_same_bits(routes.execute(method, (model.x,)), model.expected)


def test_threads_with_a_method_each() -> None:
    model = _model("branches")

    def work(index: int) -> bool:
        for _ in range(5 if index % 2 else 1):
            method = routes.load(model.pte)
            for _ in range(1 if index % 2 else 10):
                routes.assert_same_bits(routes.execute(method, (model.x,)), model.expected)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def _compiled(folder: Path) -> Path:
    compiler = shutil.which("c++") or "c++"
    root = Path(executorch.__path__[0])
    include = [root / "include", root / "include/executorch/runtime/core/portable_type/c10"]
    backend = library_path(BACKEND_LIBRARY)
    binary = folder / "runtime_contract"
    command = [
        compiler, "-std=c++17", "-O1", "-DC10_USING_CUSTOM_GENERATED_MACROS",
        "-DET_EVENT_TRACER_ENABLED", *(f"-I{path}" for path in include),
        str(Path(__file__).with_name("runtime_contract.cpp")), "-o", str(binary), str(backend),
        str(root / "lib/libexecutorch.so"), "-pthread",
        f"-Wl,-rpath,{backend.parent}", f"-Wl,-rpath,{root / 'lib'}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return binary


def test_memory_execute_allocates_nothing_and_threads_do_not_meet(tmp_path: Path) -> None:
    """In C++: calls of the allocator are counted during Method::execute, delegate included."""
    binary = _compiled(tmp_path)
    model = _model("branches")
    files = {
        "model.pte": model.pte,
        "input.bin": model.x.numpy().tobytes(),
        "expected.bin": model.expected[0].numpy().tobytes(),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    done = subprocess.run(
        [binary, *files], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert done.stdout.splitlines() == ["trap works: 1", "allocations: 0", "thread failures: 0"]
