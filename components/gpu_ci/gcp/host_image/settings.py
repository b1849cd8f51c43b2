"""The settings of a pipeline, which the steps of its build get as one JSON value. They contain no secret."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...naming import fit

_DAY_SEC = 86_400


def pipeline_label(name: str, stack: str) -> str:
    """Return the label gpu-ci-image of a pipeline's images, which is also the start of their names."""
    return fit(f"{name}-{stack}", 50)


@dataclass(frozen=True)
class MachineSettings:
    """A machine of the build: its template, the zones to try in order, and the time limit of its work."""

    template: str
    zones: list[str]
    deadline_sec: int


@dataclass(frozen=True)
class Settings:
    """The settings of one pipeline."""

    project: str
    pipeline: str
    """The value of the label gpu-ci-image, which is unique in the project."""
    builder: MachineSettings
    check: MachineSettings
    made_from: Mapping[str, str]
    """The inputs of the image by name, such as runner: 2.338.0. The description of the image contains them."""
    keep: int
    """The number of images that passed their check and are kept."""
    refresh_days: int
    """After this number of days, the same inputs give a new image, which has newer packages."""
    in_use: list[str] = field(default_factory=list)
    """Images that pools of the stack file name. They are never deleted."""
    labels: Mapping[str, str] = field(default_factory=dict)
    storage_location: str = ""
    """The region that stores the image."""

    def image_name(self, unix_sec: float) -> str:
        """Return the name of the image: the pipeline, and a hash of the inputs and of the refresh period."""
        period = int(unix_sec // (self.refresh_days * _DAY_SEC))
        text = json.dumps([sorted(self.made_from.items()), period])
        return f"{self.pipeline}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def parse(text: str) -> Settings:
    """Return the settings. Raise ValueError if the JSON has other fields."""
    try:
        value: dict[str, Any] = json.loads(text)
        builder, check = (MachineSettings(**value.pop(name)) for name in ("builder", "check"))
        return Settings(builder=builder, check=check, **value)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the settings of the pipeline are incomplete: {error}") from None
