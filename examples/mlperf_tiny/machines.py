# SPDX-License-Identifier: BSD-3-Clause
"""Log-mel frames of a synthesised machine, sound and faulty, for the autoencoder.

ToyADMOS, the recordings of toy cars that the model was trained on, cannot be fetched from a package
registry. What stands in: noise at 48 kHz with the spectrum that the trained model gives back for
the middle of its bottleneck, a motor's harmonics, and a gain, a tilt and a speed that differ from
input to input. The faults are knocks, a squeal, a rattle and a worn bearing's hiss. The model
reconstructs the sound ones with about the error that its authors report for recordings (a mean
square of 55 to 130), and most of the faulty ones worse.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

RATE = 48_000
WINDOW, HOP = 3_072, 1_536  # 64 ms, 32 ms
FRAMES, BINS = 5, 128
CODES_PER_DECIBEL = 3.0
FAULTS = ("knocks", "squeal", "rattle", "hiss")

# The usual code (0 to 255) of some bands; between them on a straight line.
_BANDS = (0, 4, 8, 12, 24, 48, 72, 96, 104, 112, 120, 127)
_LEVELS = (121, 157, 180, 206, 199, 192, 168, 166, 143, 118, 92, 60)


@functools.cache
def _filters() -> FloatArray:
    """Triangular filters, evenly spaced on the mel scale up to 24 kHz: [BINS, WINDOW / 2 + 1]."""
    top = 2595.0 * np.log10(1.0 + RATE / 2 / 700.0)
    corners = 700.0 * (10.0 ** (np.linspace(0.0, top, BINS + 2) / 2595.0) - 1.0)
    hz = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    rising = (hz - corners[:-2, None]) / (corners[1:-1] - corners[:-2])[:, None]
    falling = (corners[2:, None] - hz) / (corners[2:] - corners[1:-1])[:, None]
    weights = np.clip(np.minimum(rising, falling), 0.0, None)
    for band in np.flatnonzero(weights.sum(1) == 0.0):  # narrower than the distance of two bins
        weights[band, np.abs(hz - corners[band + 1]).argmin()] = 1.0
    return weights


def log_mel(sound: FloatArray) -> FloatArray:
    """Codes [FRAMES, BINS] in [0, 255] of FRAMES overlapping Hann windows."""
    taper = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(WINDOW) + 0.5) / WINDOW)
    frames = np.stack([sound[i * HOP : i * HOP + WINDOW] * taper for i in range(FRAMES)])
    power = np.abs(np.fft.rfft(frames)) ** 2 @ _filters().T
    return np.clip(CODES_PER_DECIBEL * 10.0 * np.log10(np.maximum(power, 1.0)), 0.0, 255.0)


def _coloured(rng: np.random.Generator, codes: FloatArray, length: int) -> FloatArray:
    """Noise whose bands have these codes on average."""
    filters = _filters()
    centres = filters @ (np.arange(WINDOW // 2 + 1) * RATE / WINDOW) / filters.sum(1)
    power = 10.0 ** (codes / CODES_PER_DECIBEL / 10.0)
    # A bin of a Hann window over white noise of variance 1 has the power 3 / 8 * WINDOW.
    density = power / filters.sum(1) / (0.375 * WINDOW)
    hz = np.arange(length // 2 + 1) * RATE / length
    shape = np.sqrt(10.0 ** np.interp(hz, centres, np.log10(density)))
    return np.fft.irfft(np.fft.rfft(rng.normal(0.0, 1.0, length)) * shape, length)


def _with_fault(rng: np.random.Generator, sound: FloatArray, fault: str) -> FloatArray:
    level, time = float(np.sqrt(np.mean(sound**2))), np.arange(len(sound)) / RATE
    if fault == "knocks":
        knocks = np.zeros(len(sound))
        knocks[rng.integers(0, len(sound) - 1, 4)] = 20.0 * level * rng.uniform(0.2, 2.0)
        return sound + knocks
    if fault == "squeal":
        pitch = rng.uniform(2_000.0, 9_000.0) + 300.0 * np.sin(2 * np.pi * 5 * time)
        phase = 2 * np.pi * np.cumsum(pitch) / RATE
        return sound + rng.uniform(0.03, 1.0) * level * np.sin(phase)
    if fault == "rattle":
        depth, hz = rng.uniform(0.2, 0.9), rng.uniform(8.0, 30.0)
        return sound * (1.0 + depth * np.sign(np.sin(2 * np.pi * hz * time)))
    if fault == "hiss":
        return sound + rng.normal(0.0, rng.uniform(0.004, 0.1) * level, len(sound))
    raise ValueError(f"fault: got {fault!r}, supported: {FAULTS}")


def machine(rng: np.random.Generator, fault: str | None = None) -> FloatArray:
    """Codes [FRAMES * BINS] of a running machine, with one of FAULTS if named."""
    length = WINDOW + HOP * (FRAMES - 1)
    codes = np.interp(np.arange(BINS), _BANDS, _LEVELS)
    codes = codes + rng.normal(0.0, 4.0) + rng.normal(0.0, 4.0) * np.linspace(-1.0, 1.0, BINS)
    sound = _coloured(rng, codes, length)
    time, speed = np.arange(length) / RATE, rng.uniform(90.0, 160.0)
    level = rng.uniform(0.02, 0.2) * float(np.sqrt(np.mean(sound**2)))
    for harmonic in range(1, 12):
        phase = 2 * np.pi * (harmonic * speed * time + rng.uniform())
        sound += level / harmonic * np.sin(phase)
    if fault is not None:
        sound = _with_fault(rng, sound, fault)
    return log_mel(sound).reshape(-1)
