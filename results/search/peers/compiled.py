"""An example with its model compiled: `compiled.py EXAMPLE.py MODE`, so that a peer's torch.compile can be verified."""

import dataclasses
import importlib.util
import sys

from torch import nn

path, mode = sys.argv[1:3]
spec = importlib.util.spec_from_file_location("example", path)
assert spec is not None
assert spec.loader is not None
example = importlib.util.module_from_spec(spec)
sys.modules["example"] = example  # loader workers look it up by this name
spec.loader.exec_module(example)


def build_model() -> nn.Module:
    model = example.workload.model()
    model.compile(mode=mode)  # in place: parameters keep their names
    return model


workload = dataclasses.replace(example.workload, model=build_model)
