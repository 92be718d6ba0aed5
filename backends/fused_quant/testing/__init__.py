# SPDX-License-Identifier: BSD-3-Clause
"""What people who test the backend use; nothing here is needed to lower or run a model."""
