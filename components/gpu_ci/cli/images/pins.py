"""Finds the pinned software of a stack file's pools or of a Dockerfile, and compares it with what its vendors support.

The pools are read without validation, because validation refuses the oldest runners.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from gpu_catalog import data_files, queries, staleness
from gpu_catalog.driver_rules import PREFERRED_BRANCH
from gpu_catalog.errors import UnknownName

from gpu_ci import versions
from gpu_ci.cli.images.dockerfile import Dockerfile
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.stack.pools import POOLS

OUTDATED, SOON, BEHIND, UNKNOWN, SUPPORTED = "outdated", "soon", "behind", "unknown", "supported"

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:\+\w+)?")
_ACCELERATOR_IMAGE = re.compile(
    r"projects/ubuntu-os-accelerator-images/global/images/(family/)?[a-z0-9-]+-amd64-[a-z0-9-]+"
)
_CONTAINER = re.compile(r"(?P<name>[^@\s]+?)(?::(?P<tag>[\w.-]+))?(?:@sha256:[0-9a-f]{64})?")
_CUDA_IMAGES = ("nvidia/cuda", "docker.io/nvidia/cuda", "nvcr.io/nvidia/cuda")
_RUNNER_IMAGE = "ghcr.io/actions/actions-runner"


@dataclass(frozen=True)
class Release:
    """A release of GitHub's runner, with the SHA-256 checksums of its Linux archives by architecture."""

    version: str
    sha256: Mapping[str, str]
    released: date | None = None
    source: str = ""


PACKAGED = Release(versions.RUNNER, versions.RUNNER_SHA256)
"""The release that this package pins."""


@dataclass(frozen=True)
class Pin:
    """One pinned version of a pool, with its state."""

    pool: str
    """The name of the pool, or the stage of a Dockerfile."""
    what: str
    in_use: str
    state: str
    text: str = ""
    hint: str = ""
    source: str = ""
    is_default: bool = False
    """True if the stack file does not name the version, so that this package chooses it."""
    edits: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """The new value of each field to change, by the keys below the pool."""


def pins(file: StackFile, today: date, newest: Release = PACKAGED) -> list[Pin]:
    """Return the pins of all pools in the order of the file."""
    pools = file.value(POOLS)
    found: list[Pin] = []
    for name, pool in pools.items() if isinstance(pools, Mapping) else ():
        if not isinstance(pool, Mapping):
            continue
        if pool.get("kind") == "gce-runners":
            found += _machine(str(name), pool, today, newest)
        elif pool.get("kind") == "eks-runners":
            found += _nodes(str(name), pool, today, newest)
        elif pool.get("kind") == "cloud-build":
            found += _builds(str(name), pool, today, newest)
    return found


def base_images(file: Dockerfile, today: date, newest: Release = PACKAGED) -> list[Pin]:
    """Return the pins of a Dockerfile: its base images."""
    return [_container(stage, "FROM", image, today, newest) for stage, image in file.base_images()]


def _machine(name: str, pool: Mapping[str, Any], today: date, newest: Release) -> Iterator[Pin]:
    """Yield the pins of a pool on Compute Engine."""
    source = _text(pool, "driver", "source") or "image"
    yield _runner(name, pool, today, newest)
    image = _text(pool, "image")
    if image or source == "image":
        yield _boot_image(name, image, today)
    if source == "installer":
        yield _driver(name, pool, today)
    if check_image := _text(pool, "driver", "checkImage"):
        yield _container(name, "driver.checkImage", check_image, today, newest)
    if source != "cos":
        yield _torch(name, _text(pool, "torch"))


def _nodes(name: str, pool: Mapping[str, Any], today: date, newest: Release) -> Iterator[Pin]:
    """Yield the pins of a pool on EKS."""
    for path in (("runner", "image"), ("smoke", "image")):
        if image := _text(pool, *path):
            yield _container(name, ".".join(path), image, today, newest)
    ami_type = _text(pool, "amiType")
    if not ami_type:
        return
    try:
        stale = staleness.ami_type(ami_type, today)
    except UnknownName:
        yield Pin(name, "amiType", ami_type, UNKNOWN, "is not an AMI type of the catalog", "see gpu-ci check")
        return
    types = {each.ami_type: each for each in queries.ami_types()}
    row = types[ami_type]
    better = [
        key
        for key, each in types.items()
        if each.os == "al2023" and (each.architecture, each.nvidia) == (row.architecture, row.nvidia)
    ]
    edits: dict[tuple[str, ...], str] = {("amiType",): better[0]} if len(better) == 1 else {}
    yield _pin(name, "amiType", ami_type, stale, edits)


def _builds(name: str, pool: Mapping[str, Any], today: date, newest: Release) -> Iterator[Pin]:
    """Yield the pins of a build pool: the images in which the steps of its triggers run."""
    triggers = pool.get("triggers")
    for trigger, value in triggers.items() if isinstance(triggers, Mapping) else ():
        build = value.get("build") if isinstance(value, Mapping) else None
        steps = build.get("steps") if isinstance(build, Mapping) else None
        for index, step in enumerate(steps if isinstance(steps, list) else ()):
            # The image of a step of the kind `docker` is the result of the build.
            if isinstance(step, Mapping) and step.get("kind") == "run" and (image := _text(step, "image")):
                yield _container(name, f"triggers.{trigger}.build.steps[{index}].image", image, today, newest)


def _runner(name: str, pool: Mapping[str, Any], today: date, newest: Release) -> Pin:
    pinned = _text(pool, "runner", "version")
    version = pinned or versions.RUNNER
    if not (parts := _VERSION.fullmatch(version)):
        return Pin(name, "runner", version, UNKNOWN, "is not a version of the runner", "see gpu-ci check")
    stale = _runner_stale(version, today, newest)
    sums = pool["runner"].get("sha256") if pinned else None
    edits: dict[tuple[str, ...], str] = {}
    if (
        isinstance(sums, Mapping)
        and sums
        and set(sums) <= set(newest.sha256)
        and _parts(parts[0]) < _parts(newest.version)
    ):
        edits = {("runner", "version"): newest.version}
        edits |= {("runner", "sha256", key): newest.sha256[key] for key in sums}
    return _pin(name, "runner", version, stale, edits, is_default=not pinned, online=newest.source)


def _runner_stale(version: str, today: date, newest: Release) -> tuple[staleness.Stale, ...]:
    if newest.released is None:
        return staleness.runner(version, today)
    if _parts(version) >= _parts(newest.version):  # GitHub has no newer release, however old this release is
        return ()
    return staleness.runner(version, today, {newest.version: newest.released})


def _boot_image(name: str, image: str, today: date) -> Pin:
    """Return the pin of a boot image. Only Google's images name their software."""
    used = image or versions.GCE_IMAGE
    stale = staleness.image(used, today)
    edits: dict[tuple[str, ...], str] = {("image",): versions.GCE_IMAGE} if _ACCELERATOR_IMAGE.fullmatch(image) else {}
    if staleness.image(versions.GCE_IMAGE, today):
        edits = {}
    known = used.startswith(("projects/ubuntu-os-", "projects/deeplearning-platform-release/"))
    pin = _pin(name, "image", used, stale, edits, is_default=not image)
    if pin.state == SUPPORTED and not known:
        return Pin(name, "image", used, UNKNOWN, "has a name that does not list its software", "check how it was built")
    return pin


def _driver(name: str, pool: Mapping[str, Any], today: date) -> Pin:
    given = pool["driver"].get("branch")  # a map, because it has a source
    branch = PREFERRED_BRANCH if given is None else given
    if not str(branch).isdigit():
        return Pin(name, "driver.branch", str(branch), UNKNOWN, "is not a driver branch", "see gpu-ci check")
    stale = staleness.driver_branch(int(branch), today)
    is_better = int(branch) != PREFERRED_BRANCH and not staleness.driver_branch(PREFERRED_BRANCH, today)
    edits: dict[tuple[str, ...], str] = {("driver", "branch"): str(PREFERRED_BRANCH)} if is_better else {}
    return _pin(name, "driver.branch", str(branch), stale, edits, is_default=given is None)


def _torch(name: str, pinned: str) -> Pin:
    version = pinned or versions.TORCH
    if not _VERSION.fullmatch(version):
        return Pin(name, "torch", version, UNKNOWN, "is not a version of torch", "see gpu-ci check")
    if _parts(version) < _parts(versions.TORCH):
        text, hint = f"is older than {versions.TORCH}, which gpu-ci pins", "gpu-ci check MACHINE --torch VERSION"
        return Pin(name, "torch", version, BEHIND, text, hint)
    return Pin(name, "torch", version, SUPPORTED, is_default=not pinned)


def _container(name: str, what: str, image: str, today: date, newest: Release) -> Pin:
    """Return the pin of a container image. The tags of GitHub's runner and of nvidia/cuda name the version."""
    found = _CONTAINER.fullmatch(image)
    repository, tag = (found["name"], found["tag"] or "") if found else ("", "")
    if repository in _CUDA_IMAGES:
        return _pin(name, what, image, staleness.cuda_tag(tag, today))
    if repository == _RUNNER_IMAGE and re.fullmatch(r"\d+\.\d+\.\d+", tag):
        return _pin(name, what, image, _runner_stale(tag, today, newest), online=newest.source)
    text = "has a name that does not list its software"
    return Pin(name, what, image, UNKNOWN, text, "check how it was built")


def _pin(
    pool: str,
    what: str,
    in_use: str,
    stale: tuple[staleness.Stale, ...],
    edits: Mapping[tuple[str, ...], str] | None = None,
    *,
    is_default: bool = False,
    online: str = "",
) -> Pin:
    """Return a pin with the worst state of its warnings, and with edits only if there is a warning."""
    if not stale:
        return Pin(pool, what, in_use, SUPPORTED, is_default=is_default, source=online)
    state = min((each.state for each in stale), key=(OUTDATED, SOON, UNKNOWN).index)
    hint = "install a newer gpu-ci, or pin a newer version in the pool" if is_default else stale[0].hint
    sources = [_source(each.source) or online for each in stale]
    return Pin(
        pool, what, in_use, state, "; ".join(each.text for each in stale), hint,
        "; ".join(dict.fromkeys(filter(None, sources))), is_default,
        {} if is_default or state == UNKNOWN else edits or {},
    )  # fmt: skip


def _source(key: str) -> str:
    if not key:
        return ""
    source = data_files.sources()[key]
    return f"{source.what} ({source.date})"


def _text(pool: Mapping[str, Any], *path: str) -> str:
    """Return the text at a path of a pool. Return an empty text if it is missing or has another type."""
    value: Any = pool
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.partition("+")[0].split(".")))
