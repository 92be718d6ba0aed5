# SPDX-License-Identifier: BSD-3-Clause
"""Inputs for the MLPerf Tiny models: photographs and spoken words.

The data sets the models were trained on (CIFAR-10, Speech Commands) cannot be fetched from a
package registry, so these stand in for them:

* ResNet-8: real photographs. Square crops of scikit-image's sample photos, resized to 32x32. The
  photos for calibration and for tests are different ones.
* MobileNetV1: the same photographs in larger crops, at 96x96. There are people in `astronaut`
  (calibration) and in `camera`, which is among the tests of the trained one; most crops of these
  are "person" to it, and none of the cat, the coffee and the rocket.
* DS-CNN: recordings of a voice ("front left", "rear right", ...) and of noise, from Debian's
  `alsa-utils`, when that package is installed; the recordings for calibration and for tests are
  different ones. Otherwise speech-like sound, synthesised. Either becomes a log-mel spectrogram
  like the one the model was trained on (see `spectrogram`).
* Autoencoder, trained: log-mel frames of a synthesised machine (`machines.py`); with seeded
  weights: DS-CNN's spectrograms, flattened.

There are no labels to measure accuracy with; what the inputs are for is to exercise the models
with activations of the usual statistics.
"""

from __future__ import annotations

import functools
import math
import pathlib
import wave

import numpy as np
import numpy.typing as npt
import torch

from examples.mlperf_tiny import machines

FloatArray = npt.NDArray[np.float64]
Batches = list[torch.Tensor]

RECORDINGS = pathlib.Path("/usr/share/sounds/alsa")
CALIBRATION_RECORDINGS = ("Front_Center", "Front_Left", "Front_Right", "Side_Left", "Noise")
TEST_RECORDINGS = ("Rear_Center", "Rear_Left", "Rear_Right", "Side_Right")
CALIBRATION_PHOTOS = ("astronaut", "coffee", "stereo_motorcycle")
TEST_PHOTOS = ("chelsea", "rocket")

TEST_PEOPLE = ("camera", "chelsea", "rocket")

PHOTO_SIZES = {"resnet8": 32, "mobilenet_v1": 96}  # pixels a side
SMALLEST_CROP = {"resnet8": 96, "mobilenet_v1": 160}

SAMPLE_RATE = 16_000
WINDOW = 480
HOP = 320
FFT = 512
BINS = 10
FRAMES = 50
LOW_HZ, HIGH_HZ = 125.0, 4_000.0


@functools.cache
def _photo(name: str) -> FloatArray:
    from skimage import data

    image = getattr(data, name)()
    if isinstance(image, tuple):  # a stereo pair and its disparity
        image = image[0]
    if image.ndim == 2:  # shades of grey
        image = np.repeat(image[:, :, None], 3, 2)
    return np.asarray(image, np.float64)


def _crop(
    rng: np.random.Generator, photo: FloatArray, pixels_a_side: int, smallest: int
) -> FloatArray:
    """Whole numbers in [0, 255], [3, pixels_a_side, pixels_a_side]."""
    from skimage.transform import resize

    height, width = photo.shape[:2]
    side = int(rng.integers(smallest, min(height, width) + 1))
    top = int(rng.integers(0, height - side + 1))
    left = int(rng.integers(0, width - side + 1))
    crop = resize(
        photo[top : top + side, left : left + side], (pixels_a_side,) * 2, anti_aliasing=True
    )
    if rng.integers(2):
        crop = crop[:, ::-1]
    return np.clip(np.rint(crop), 0, 255).transpose(2, 0, 1)


def _photographs(name: str, rng: np.random.Generator, n: int, test: bool, trained: bool) -> Batches:
    names = TEST_PHOTOS if test else CALIBRATION_PHOTOS
    whole = name == "mobilenet_v1" and trained
    if whole and test:
        names = TEST_PEOPLE
    crops = []
    for i in range(n):
        photo = _photo(names[i % len(names)])
        crop = _crop(rng, photo, PHOTO_SIZES[name], SMALLEST_CROP[name])
        crops.append(crop if whole else (crop - 128) / 128)
    return [torch.from_numpy(np.ascontiguousarray(x, np.float32))[None] for x in crops]


def _machines(rng: np.random.Generator, n: int, test: bool) -> Batches:
    """Sound machines; among the tests every second one is faulty, each fault in turn."""
    faults = machines.FAULTS
    wanted = [faults[i // 2 % len(faults)] if test and i % 2 else None for i in range(n)]
    drawn = [machines.machine(rng, fault).astype(np.float32) for fault in wanted]
    return [torch.from_numpy(x)[None] for x in drawn]


def _mel(hz: FloatArray | float) -> FloatArray:
    return np.asarray(1127.0 * np.log1p(np.asarray(hz) / 700.0))


@functools.cache
def _filter_bank() -> FloatArray:
    """Triangular filters, evenly spaced on the mel scale: [BINS, FFT / 2 + 1]."""
    low, high = float(_mel(LOW_HZ)), float(_mel(HIGH_HZ))
    centre = np.linspace(low, high, BINS + 2)
    at = _mel(np.arange(FFT // 2 + 1) * SAMPLE_RATE / FFT)
    rising = (at - centre[:-2, None]) / (centre[1:-1] - centre[:-2])[:, None]
    falling = (centre[2:, None] - at) / (centre[2:] - centre[1:-1])[:, None]
    return np.clip(np.minimum(rising, falling), 0.0, None)


def spectrogram(sound: FloatArray) -> FloatArray:
    """Log-mel features [FRAMES, BINS] in [0, 255] of one second of 16 kHz sound (int16 range).

    30 ms Hann windows every 20 ms, ten bands up to 4 kHz, and the logarithm of each band's
    amplitude: the plan of TensorFlow's "microfrontend", whose settings the trained model's
    authors give only in part. The gain of the logarithm was chosen so that the trained model
    recognises the recordings of this module: "left", "right", "centre" (class "unknown") and noise.
    """
    needed = WINDOW + HOP * (FRAMES - 1)
    padded = np.pad(sound[:needed], (0, max(0, needed - len(sound))))
    taper = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(WINDOW) + 0.5) / WINDOW)
    frames = np.stack([padded[i * HOP : i * HOP + WINDOW] * taper for i in range(FRAMES)])
    power = np.abs(np.fft.rfft(frames, FFT)) ** 2
    amplitude = np.sqrt(power @ _filter_bank().T) / 8.0
    return np.clip(19.2 * np.log(np.maximum(amplitude, 1.0)), 0.0, 255.0)


@functools.cache
def recording(name: str) -> FloatArray:
    """A recording, mixed to one channel and resampled to 16 kHz."""
    from scipy.signal import resample_poly

    with wave.open(str(RECORDINGS / f"{name}.wav")) as file:
        rate, channels = file.getframerate(), file.getnchannels()
        raw = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    sound = raw.reshape(-1, channels).mean(1)
    common = math.gcd(rate, SAMPLE_RATE)
    return np.asarray(resample_poly(sound, SAMPLE_RATE // common, rate // common))


def _resonate(source: FloatArray, hz: float, bandwidth: float) -> FloatArray:
    from scipy.signal import lfilter

    radius = math.exp(-math.pi * bandwidth / SAMPLE_RATE)
    poles = [1.0, -2 * radius * math.cos(2 * math.pi * hz / SAMPLE_RATE), radius * radius]
    return np.asarray(lfilter([1.0 - radius], poles, source))


def synthesise(rng: np.random.Generator) -> FloatArray:
    """One second of speech-like sound: two or three syllables of hiss and of three formants."""
    sound = rng.normal(0.0, 20.0, SAMPLE_RATE)
    start = int(rng.integers(500, 3000))
    for _ in range(int(rng.integers(2, 4))):
        hiss, voiced = int(rng.integers(400, 1600)), int(rng.integers(1600, 4000))
        noise = _resonate(rng.normal(0.0, 1.0, hiss), float(rng.uniform(2500, 3800)), 600.0)
        pulses = np.zeros(voiced)
        pulses[:: int(rng.integers(70, 160))] = 1.0
        voice = pulses
        for low, high, bandwidth in ((300, 900, 80), (900, 2300, 120), (2300, 3200, 180)):
            voice = _resonate(voice, float(rng.uniform(low, high)), bandwidth)
        syllable = np.concatenate(
            [noise / np.abs(noise).max() * 2_000, voice / np.abs(voice).max() * 12_000]
        )
        syllable *= np.sin(np.linspace(0.0, np.pi, len(syllable))) ** 0.5
        stop = min(SAMPLE_RATE, start + len(syllable))
        sound[start:stop] += syllable[: stop - start]
        start = min(SAMPLE_RATE, stop + int(rng.integers(200, 1500)))
    return sound * rng.uniform(0.3, 1.5)


def sound_source() -> str:
    """What DS-CNN's inputs are made from: "recorded" or "synthesised" sound."""
    names = CALIBRATION_RECORDINGS + TEST_RECORDINGS
    found = all((RECORDINGS / f"{name}.wav").is_file() for name in names)
    return "recorded" if found else "synthesised"


def _words(rng: np.random.Generator, names: tuple[str, ...], rank: int) -> torch.Tensor:
    if sound_source() == "recorded":
        whole = recording(names[rank % len(names)])
        start = int(rng.integers(0, max(1, len(whole) - SAMPLE_RATE)))
        sound = whole[start:] * rng.uniform(0.5, 1.1)
    else:
        sound = synthesise(rng)
    return torch.from_numpy(spectrogram(sound).astype(np.float32))[None, None]


def _frames(rng: np.random.Generator, names: tuple[str, ...], rank: int) -> torch.Tensor:
    """640 values around zero: the features of a sound, and from their start again."""
    word = _words(rng, names, rank)[0, 0] / 128 - 1
    flat = word.flatten()
    return torch.cat([flat, flat])[None, :640]


def _inputs(name: str, n: int, test: bool, trained: bool) -> Batches:
    rng = np.random.default_rng(2 if test else 1)
    if name in PHOTO_SIZES:
        return _photographs(name, rng, n, test, trained)
    if name == "autoencoder" and trained:
        return _machines(rng, n, test)
    if name == "autoencoder":
        return [
            _frames(rng, TEST_RECORDINGS if test else CALIBRATION_RECORDINGS, i) for i in range(n)
        ]
    if name == "ds_cnn":
        recordings = TEST_RECORDINGS if test else CALIBRATION_RECORDINGS
        words = [_words(rng, recordings, i) for i in range(n)]
        # The executorch wheel's definition reads one frame less, of values around zero.
        return words if trained else [word[:, :, 1:] / 128 - 1 for word in words]
    raise ValueError(f"there are no inputs of a model {name!r}")


def calibration_inputs(name: str, n: int, trained: bool = True) -> Batches:
    """`n` float32 inputs of batch 1 to calibrate a model of `LOADERS` with.

    `trained` says which variant of the model they are for; only ResNet-8's are the same for both.
    """
    return _inputs(name, n, False, trained)


def test_inputs(name: str, n: int, trained: bool = True) -> Batches:  # noqa: PT028
    """`n` float32 inputs of batch 1 from other photographs or recordings than the calibration's."""
    return _inputs(name, n, True, trained)


# The name begins like a test's; pytest shall not take it for one where it is imported.
test_inputs.__test__ = False  # type: ignore[attr-defined]
