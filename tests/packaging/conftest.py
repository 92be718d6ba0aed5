# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the packaging tests."""

from __future__ import annotations

import os

import pytest

from tests.packaging.install import Installation, installed_wheel


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An isolated build of the wheel, installed; shared by the workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return installed_wheel(shared / "installation")
