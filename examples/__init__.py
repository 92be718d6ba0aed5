# SPDX-License-Identifier: BSD-3-Clause
"""Runnable examples; start them from the repository root with `python -m examples.<name>`."""
