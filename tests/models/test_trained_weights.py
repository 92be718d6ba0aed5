# SPDX-License-Identifier: BSD-3-Clause
"""The trained MLPerf Tiny modules against the files their weights come from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from examples import mlperf_tiny
from examples.mlperf_tiny.weights import FILES
from tests.models import keras_reference


@pytest.mark.parametrize("name", FILES)
def test_the_module_computes_what_the_keras_file_says(name: str) -> None:
    """Float32 PyTorch and float64 numpy, within a hundred-thousandth of the largest output."""
    torch.set_num_threads(1)
    try:
        model = mlperf_tiny.LOADERS[name](True)
    except mlperf_tiny.WeightsUnavailableError as error:
        pytest.skip(f"no trained weights: {error}")
    x = torch.cat(mlperf_tiny.test_inputs(name, 4))
    keras = x.permute(0, 2, 3, 1) if x.dim() == 4 else x.reshape(-1, 5, 128, 1)
    expected = keras_reference.evaluate(FILES[name], keras.contiguous().numpy()).reshape(4, -1)
    with torch.no_grad():
        got = model(x).numpy()
    assert np.abs(got - expected).max() < 1e-5 * np.abs(expected).max()


def test_the_autoencoder_tells_faulty_machines_from_sound_ones() -> None:
    """Its error on sound ones is like that on recordings; the largest errors are of faulty ones."""
    try:
        model = mlperf_tiny.load_autoencoder()
    except mlperf_tiny.WeightsUnavailableError as error:
        pytest.skip(f"no trained weights: {error}")
    x = torch.cat(mlperf_tiny.test_inputs("autoencoder", 32))
    with torch.no_grad():
        errors = (model(x) - x).square().mean(1)
    sound, faulty = errors[::2], errors[1::2]
    assert 40 < sound.median() < 130
    assert (faulty > sound.max()).float().mean() > 0.5
