# SPDX-License-Identifier: BSD-3-Clause
"""The main job in ten lines: from an nn.Module to an int8 .pte, run on this machine."""

import torch
from executorch.runtime import Runtime
from torch import nn

import fused_quant

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)).eval()
example = (torch.rand(1, 1, 8, 8),)
calibration = [(torch.rand(1, 1, 8, 8),) for _ in range(100)]

program = fused_quant.lower(model, example, calibration)
fused_quant.load_runtime()
method = Runtime.get().load_program(program.buffer).load_method("forward")
print("float:", model(*example).detach())
print("int8: ", method.execute(example)[0])
