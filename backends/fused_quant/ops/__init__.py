# SPDX-License-Identifier: BSD-3-Clause
"""One module per operator: dialect operator, fusion, annotation and serialization."""
