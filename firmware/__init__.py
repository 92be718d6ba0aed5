# SPDX-License-Identifier: BSD-3-Clause
"""Firmware for microcontroller boards, and the host side that builds and runs it."""
