# SPDX-License-Identifier: BSD-3-Clause
"""MLPerf Tiny's four models: definitions, weights, and inputs to run them on.

`load_resnet8(trained=True)` and its like give a float module in eval mode, `LOADERS` has all four
by name, each trained or with seeded random weights; `calibration_inputs(name, n)` and
`test_inputs(name, n)` give float32 batches of one sample that never overlap.
"""

from examples.mlperf_tiny.inputs import calibration_inputs, sound_source, test_inputs
from examples.mlperf_tiny.models import (
    LOADERS,
    load_autoencoder,
    load_ds_cnn,
    load_mobilenet_v1,
    load_resnet8,
)
from examples.packages import WeightsUnavailableError

__all__ = [
    "LOADERS",
    "WeightsUnavailableError",
    "calibration_inputs",
    "load_autoencoder",
    "load_ds_cnn",
    "load_mobilenet_v1",
    "load_resnet8",
    "sound_source",
    "test_inputs",
]
