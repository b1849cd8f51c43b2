"""The image pipelines of stack files, their candidates, and the pins of pools. The commands on candidates share it.

Each kind of pipeline has a module in MODULES. `candidates` returns its images from the cloud, and raises InputError if
the cloud does not answer. `owns` is True for a reference to its images, of any build. `keep_hint` says what keeps the
image of a pin; it is empty if the clean-up of the pipeline never deletes it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpu_ci.cli.stack_files import StackFile, problems_found
from gpu_ci.kinds import image_component_for
from gpu_ci.stack import images, pools
from gpu_ci.stack.entries import Spec

PASSED, FAILED, MISSING = "passed", "failed", "missing"
"""The results of the check of a candidate. MISSING: the check did not pass, or it has not ended."""

MODULES = {
    "ami": "gpu_ci.cli.images.amis",
    "container": "gpu_ci.cli.images.containers",
    "host": "gpu_ci.cli.images.hosts",
}
"""The module of each kind of pipeline."""


@dataclass(frozen=True)
class Pipeline:
    """One image pipeline of a stack file."""

    file: StackFile
    spec: Spec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def skipped(self) -> list[str]:
        """The candidates that the stack file excludes from promotion."""
        given = self.spec.choices.get("skip")
        return [str(each) for each in given] if isinstance(given, list) else []


@dataclass(frozen=True)
class Candidate:
    """An image that a pipeline has built."""

    name: str
    """The digest, the name of the image, or the AMI id. The field `skip` of a pipeline has names in this form."""
    reference: str
    """The text that a field of a pool takes."""
    made_from: str
    """The source, such as a commit."""
    check: str
    """PASSED, FAILED or MISSING."""
    created: datetime
    """The time of the build, with a time zone."""


@dataclass(frozen=True)
class PoolPin:
    """A field of a pool that names an image of a pipeline."""

    file: StackFile
    pool: str
    keys: tuple[str, ...]
    reference: str

    @property
    def place(self) -> str:
        return f"{self.file.name}: {self.pool}.{'.'.join(self.keys)}"


def kind_of(pipeline: Pipeline) -> Any:
    """Import the module of the pipeline's kind."""
    return importlib.import_module(MODULES[pipeline.spec.kind])


def pipelines(file: StackFile) -> list[Pipeline]:
    """Return the image pipelines of a stack file, sorted by name.

    Raises:
        ProblemsFound: The section has a problem, so the names of its images are not certain.
    """
    if problems := file.problems_of_pipelines:
        raise problems_found(file, problems, "; see gpu-ci check")
    return [Pipeline(file, spec) for spec in file.pipelines]


def candidates_of(pipeline: Pipeline) -> list[Candidate]:
    """Return the images of a pipeline, newest first. Raise InputError if the cloud does not list them."""
    found: list[Candidate] = kind_of(pipeline).candidates(pipeline)
    return sorted(found, key=lambda each: each.created, reverse=True)


def pins_of(pipeline: Pipeline, files: Iterable[StackFile]) -> list[PoolPin]:
    """Return the fields of pools in these files that name an image of the pipeline."""
    component: Any = image_component_for(pipeline.spec.kind)
    kind = kind_of(pipeline)
    return [
        PoolPin(file, pool, keys, reference)
        for file in files
        if isinstance(value := file.values[pools.POOLS], Mapping)
        for (pool, keys), reference in images.pinned(value.items(), component.PINS).items()
        if kind.owns(pipeline, reference)
    ]
