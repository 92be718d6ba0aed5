# SPDX-License-Identifier: BSD-3-Clause
"""`python -m fused_quant.cmake_prefix` prints the folder to add to CMAKE_PREFIX_PATH."""

from __future__ import annotations

from fused_quant.runtime import cmake_prefix_path

if __name__ == "__main__":
    print(cmake_prefix_path())
