# SPDX-License-Identifier: BSD-3-Clause
"""Trained networks beyond MLPerf Tiny's: a pitch tracker, face detectors, voices, sentences.

Their weights come from packages of the registry (`examples/packages.py`), which are read and not
installed; the modules are written here. `python -m examples.trained.report` measures them.
"""
