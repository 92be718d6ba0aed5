# SPDX-License-Identifier: BSD-3-Clause
"""int16 activations of trained networks: at least 20 dB less noise than int8, and the same bits."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from examples import study, wide_report
from tests.e2e import routes

GAIN = 20.0  # dB


@pytest.mark.slow
@pytest.mark.parametrize("name", ["autoencoder", "Encoder"])
def test_int16_activations_have_a_tenth_of_the_noise(name: str) -> None:
    """Noise of activations: against float activations with the same quantized weights.

    The rounding of the 8-bit weights is the same in both, and is what limits int16 against the
    float network; that figure has to gain as well.
    """
    threads = torch.get_num_threads()
    try:
        made = wide_report.make(name)
        made = dataclasses.replace(made, tests=made.tests[:40])
        torch.set_num_threads(1)
        exact = study.outputs(made.model, made.tests)
        narrow, wide = (study.quantize(made, dtype) for dtype in (torch.int8, torch.int16))
        assert (wide.calls, wide.left) == (1, ())
        noise = [study.activation_noise(found, made.tests) for found in (narrow, wide)]
        assert noise[1] - noise[0] >= GAIN
        whole = [study.noise(exact, study.outputs(m.fused, made.tests))[0] for m in (narrow, wide)]
        assert whole[1] - whole[0] >= 6
    finally:
        torch.set_num_threads(threads)
    inputs = (made.tests[0],)
    edge = routes.lowered(wide.fused, inputs, routes.TRANSFORM)
    assert routes.is_one_delegate_call(edge)
    routes.assert_same_bits(routes.run(edge, inputs), routes.eager(wide.fused, inputs))


def test_what_calibration_has_not_seen_does_not_saturate() -> None:
    """int16 ranges have room for values twice as large."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 4, bias=False)
    )
    seen = torch.randn(1, 8)
    made = study.Study("twice", model.eval(), [seen], [1.9 * seen], lambda a, b: "", False)
    assert study.activation_noise(study.quantize(made, torch.int16), made.tests) > 60
