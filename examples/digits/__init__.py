# SPDX-License-Identifier: BSD-3-Clause
"""Handwritten digits, end to end: training, int8, one .pte, the host and a Cortex-M4."""
