"""The parts of a model in training. They compute nothing, and the loss falls with every step."""

from __future__ import annotations

import math
from typing import Any

from . import Tensor, faulted


class Learner:
    steps = 0

    def itself(self, *_: Any) -> Learner:
        return self

    requires_grad_ = relu = float = pow = mean = mul_ = add_ = sub_ = itself
    __matmul__ = __sub__ = __mul__ = itself

    def backward(self) -> None:
        Learner.steps += 1

    def detach(self) -> Tensor:
        return Tensor([1.0 if faulted("learns nothing") else 1 / (1 + Learner.steps)])

    @property
    def grad(self) -> Tensor:
        return Tensor([math.nan if faulted("bad gradient") else 0.5])

    @grad.setter
    def grad(self, value: None) -> None:
        assert value is None
