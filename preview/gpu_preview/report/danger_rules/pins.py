"""The rule `goes-back`: a pinned version changes to an older version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from ...diff.value_pairs import ValuePair
from ...engine.states import Change, StackStates
from ...model import Finding
from ..danger_rule import GOES_BACK, shortened

_NAMES = frozenset({"version", "tag", "imageTag", "torch", "uv", "branch", "driver_branch"})
"""Names of properties, and of keys in a JSON text, whose value is a version. Names that end with Version count too."""
_IMAGES = frozenset({"image", "sourceImage", "bootImage", "imageUri", "installer"})
"""Names of properties whose value is an image or an address, with versions in its name."""
_NOT_PINNED = frozenset({"apiVersion", "resourceVersion", "schemaVersion", "templateVersion", "tlsVersion"})
"""Names of properties whose value is the version of an API, a schema or a protocol, or counts changes."""
_COUNTED = ("launchTemplate", "launchTemplateSpecification", "versions")
"""Properties whose `version` counts the changes of a resource. A new resource counts from 1 again."""

# The number of characters of the longest text that is read as a version.
_LONGEST = 64
_IMAGE = re.compile(r"(?P<name>[^@\s]*?)(?::(?P<tag>[\w.-]{1,128}))?(?:@(?P<digest>sha256:[0-9a-f]+))?")
# The branch of NVIDIA's driver, and the date, in the names of Google's images:
# ubuntu-accelerator-2404-amd64-with-nvidia-580-v20260820.
_DRIVER = re.compile(r"(?<=nvidia-)[0-9]{3}(?![0-9])")
_DATE = re.compile(r"(?<=-v)20[0-9]{6}(?![0-9])")
_NUMBERS = re.compile(r"(v?)([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)


@dataclass(frozen=True)
class VersionChange:
    """One version in a property, before and after."""

    part: str
    """The part of the value that is the version, such as `the tag`; empty if the whole value is the version."""
    before: str
    after: str

    @property
    def goes_back(self) -> bool:
        old, new = parsed(self.before), parsed(self.after)
        return old is not None and new is not None and new < old


def check(change: Change, _stack_states: StackStates) -> Iterator[Finding]:
    if change.before is None:
        return
    for pair in change.inputs:
        for version in version_changes(pair):
            if version.goes_back:
                place = f"{version.part} of {shortened(pair.text, 120)}" if version.part else shortened(pair.text, 120)
                versions = f"from {shortened(version.before)} to {shortened(version.after)}"
                yield GOES_BACK.found(change, f"{change.name}: {place} goes back {versions}")


def version_changes(pair: ValuePair) -> Iterator[VersionChange]:
    """Yield the versions in one property that has different texts before and after."""
    before, after = _text(pair.before), _text(pair.after)
    if not before or not after or before == after or pair.path[-1] != pair.key:
        return
    if pair.key in _IMAGES:
        yield from _in_images(before, after)
    elif (pair.key in _NAMES or pair.key.endswith("Version")) and pair.key not in _NOT_PINNED and not _counted(pair):
        yield VersionChange("", before, after)


def _counted(pair: ValuePair) -> bool:
    return pair.key == "version" and any(key in _COUNTED for key in pair.keys)


def parsed(text: str) -> Version | None:
    """Return a version that packaging.version can compare, also for a driver branch such as R580, or else None."""
    if len(text) > _LONGEST:
        return None
    try:
        return Version(re.sub(r"^[Rr](?=[0-9]+$)", "", text.strip()))
    except InvalidVersion:
        return None


def _in_images(before: str, after: str) -> Iterator[VersionChange]:
    """Yield the tag if the image has the same name, or else the driver and the date in the two names."""
    old, new = _IMAGE.fullmatch(before), _IMAGE.fullmatch(after)
    if old and new and old["name"] == new["name"] and old["tag"] and new["tag"]:
        yield from _in_tags(old["tag"], new["tag"])
        return
    drivers = [_DRIVER.findall(each) for each in (before, after)]
    if all(len(each) == 1 for each in drivers):
        yield VersionChange("the driver", drivers[0][0], drivers[1][0])
    same_without_date = _DATE.sub("", before) == _DATE.sub("", after)
    if same_without_date and (dates := [_DATE.search(each) for each in (before, after)]) and all(dates):
        yield VersionChange("the date", *(date[0] for date in dates if date))


def _in_tags(before: str, after: str) -> Iterator[VersionChange]:
    """Yield the tags, or only their numbers if both have the same ending, as in 12.4.1-cudnn-runtime-ubuntu22.04."""
    if parsed(before) and parsed(after):
        yield VersionChange("the tag", before, after)
        return
    old, new = _NUMBERS.fullmatch(before), _NUMBERS.fullmatch(after)
    if old and new and old[3] == new[3]:
        yield VersionChange("the tag", old[2], new[2])


def _text(value: Any) -> str:
    """Return a text or a whole number as text, and "" for other and very long values."""
    if isinstance(value, str):
        return value if len(value) <= 1000 else ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**12 else ""
