# SPDX-License-Identifier: BSD-3-Clause
"""MLPerf Tiny's ResNet-8 and DS-CNN: definitions, trained weights, and inputs to run them on.

`load_resnet8(trained=True)` and `load_ds_cnn(trained=True)` give a float module in eval mode;
`calibration_inputs(name, n)` and `test_inputs(name, n)` with name "resnet8" or "ds_cnn" give
float32 batches of one sample that never overlap.
"""

from examples.mlperf_tiny.inputs import calibration_inputs, sound_source, test_inputs
from examples.mlperf_tiny.models import load_ds_cnn, load_resnet8
from examples.mlperf_tiny.weights import WeightsUnavailableError

__all__ = [
    "WeightsUnavailableError",
    "calibration_inputs",
    "load_ds_cnn",
    "load_resnet8",
    "sound_source",
    "test_inputs",
]
