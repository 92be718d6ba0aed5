# SPDX-License-Identifier: BSD-3-Clause
"""Graph rewrites, one per module. Each is a function of a GraphModule and keeps its meaning."""
