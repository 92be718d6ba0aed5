# SPDX-License-Identifier: BSD-3-Clause
# Generated from schema/fused_quant.fbs when the package is built; untyped.
from typing import Any

def __getattr__(name: str) -> Any: ...
