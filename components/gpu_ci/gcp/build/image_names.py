"""The names of the images that an image pipeline builds: the repository, the tags, and the digests that pools pin."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ... import naming

DIGEST = r"sha256:[0-9a-f]{64}"
BUILT, CANDIDATE = "build", "candidate"
"""The first part of the two tags of an image. The check of the build adds the second tag."""

_TAG = re.compile(rf"(?P<state>{BUILT}|{CANDIDATE})-(?P<commit>[0-9a-f]{{40}})-(?P<build>[0-9a-f-]{{36}})")


def repository_id(name: str, stack: str) -> str:
    """Return the name of the Artifact Registry repository of a pipeline."""
    return naming.fit(f"images-{name}-{stack}", 63)  # the resource has no automatic name


def address(region: str, project: str, repository: str) -> str:
    """Return the address of a repository, without the image."""
    return f"{region}-docker.pkg.dev/{project}/{repository}"


def tag(state: str, commit: str, build: str) -> str:
    """Return a tag. It names the commit and the build, so no build moves the tag of another build."""
    return f"{state}-{commit}-{build}"


def parse_tag(text: str) -> tuple[str, str, str] | None:
    """Return state, commit and build of a tag. Return None for a tag of another form."""
    found = _TAG.fullmatch(text)
    return (found["state"], found["commit"], found["build"]) if found else None


def pinned_digests(references: Iterable[str], repository: str) -> list[str]:
    """Return the digests of the references to images of this repository, sorted."""
    form = re.compile(rf"[^/]+-docker\.pkg\.dev/[^/]+/{re.escape(repository)}/[^@]+@({DIGEST})")
    return sorted({found[1] for each in references if (found := form.fullmatch(each))})
