# SPDX-License-Identifier: BSD-3-Clause
"""How ranges are chosen where torchao's observers do not do it."""

from __future__ import annotations

import torch
from torchao.quantization.pt2e import MinMaxObserver


class RoomyMinMaxObserver(MinMaxObserver):
    """Minimum and maximum, with as much room again beyond them: a range `ROOM` times as wide.

    For 16-bit activations. What calibration has not seen saturates, and next to 2^-16 of the range
    that is the error which counts: one bit of every code buys values up to twice as large.
    """

    ROOM = 2.0

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and zero point of the wider range."""
        low, high = self.min_val * self.ROOM, self.max_val * self.ROOM
        found: tuple[torch.Tensor, torch.Tensor] = self._calculate_qparams(low, high)
        return found
