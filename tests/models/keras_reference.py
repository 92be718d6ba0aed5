# SPDX-License-Identifier: BSD-3-Clause
"""A Keras file evaluated in float64 with numpy: what a converted model is compared with.

Follows the graph that the file itself describes (`model_config`), and shares nothing with the
conversion but the reading of arrays by name.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from examples.mlperf_tiny.weights import Weights, archive_member, keras_weights

Array = npt.NDArray[np.float64]
Config = dict[str, Any]


def _windows(x: Array, kernel: list[int], strides: list[int], padding: str) -> Array:
    """[n, h, w, c] to [n, rows, columns, c, kernel h, kernel w], zeros around it for "same"."""
    if padding == "same":
        widths = [(0, 0)]
        for size, taps, step in zip(x.shape[1:3], kernel, strides, strict=True):
            total = max(0, (-(-size // step) - 1) * step + taps - size)
            widths.append((total // 2, total - total // 2))
        x = np.pad(x, [*widths, (0, 0)])
    view = np.lib.stride_tricks.sliding_window_view(x, (kernel[0], kernel[1]), (1, 2))
    return np.asarray(view[:, :: strides[0], :: strides[1]])


def _conv(x: list[Array], config: Config, w: dict[str, Array]) -> Array:
    windows = _windows(x[0], config["kernel_size"], config["strides"], config["padding"])
    return np.einsum("nhwcij,ijco->nhwo", windows, w["kernel"], optimize=True) + w["bias"]


def _depthwise(x: list[Array], config: Config, w: dict[str, Array]) -> Array:
    windows = _windows(x[0], config["kernel_size"], config["strides"], config["padding"])
    kernel = w["depthwise_kernel"][..., 0]
    return np.einsum("nhwcij,ijc->nhwc", windows, kernel, optimize=True) + w["bias"]


def _norm(x: list[Array], config: Config, w: dict[str, Array]) -> Array:
    deviation = np.sqrt(w["moving_variance"] + config["epsilon"])
    return (x[0] - w["moving_mean"]) / deviation * w["gamma"] + w["beta"]


def _activation(x: list[Array], config: Config, w: dict[str, Array]) -> Array:
    kind = config["activation"]
    assert kind in ("relu", "linear")
    return np.maximum(x[0], 0.0) if kind == "relu" else x[0]


def _dense(x: list[Array], config: Config, w: dict[str, Array]) -> Array:
    """The scores: the softmax of a last layer is left out, as in the converted modules."""
    assert config["activation"] in ("softmax", "linear")
    return x[0] @ w["kernel"] + w["bias"]


def _pool(x: list[Array], config: Config, w: dict[str, Array]) -> Array:
    windows = _windows(x[0], config["pool_size"], config["strides"], config["padding"])
    return np.asarray(windows.mean((-1, -2)))


_LAYERS: dict[str, Callable[[list[Array], Config, dict[str, Array]], Array]] = {
    "Conv2D": _conv,
    "DepthwiseConv2D": _depthwise,
    "BatchNormalization": _norm,
    "Activation": _activation,
    "Dense": _dense,
    "AveragePooling2D": _pool,
    "Add": lambda x, config, w: x[0] + x[1],
    "Dropout": lambda x, config, w: x[0],
    "Flatten": lambda x, config, w: x[0].reshape(len(x[0]), -1),
    "Reshape": lambda x, config, w: x[0].reshape(len(x[0]), *config["target_shape"]),
}


def evaluate(model: str, x: npt.NDArray[np.float32]) -> Array:
    """Outputs of `<model>.h5` for a batch in Keras' order of dimensions (channels last)."""
    weights: Weights = keras_weights(model)
    with h5py.File(io.BytesIO(archive_member(model, ".h5")), "r") as file:
        layers = json.loads(file.attrs["model_config"])["config"]["layers"]
    values: dict[str, Array] = {}
    for layer in layers:
        config, name = layer["config"], layer["config"]["name"]
        if layer["class_name"] == "InputLayer":
            values[name] = x.astype(np.float64)
            continue
        own = {
            key.partition("/")[2]: np.asarray(array, np.float64)
            for key, array in weights.items()
            if key.partition("/")[0] == name
        }
        inputs = [values[node[0]] for node in layer["inbound_nodes"][0]]
        values[name] = _LAYERS[layer["class_name"]](inputs, config, own)
    return values[layers[-1]["config"]["name"]]
