"""`goes-back`: a pinned version that goes to an older one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from ...diff.value_pairs import ValuePair
from ...engine.states import Change, World
from ...model import Finding
from ..danger_rule import GOES_BACK, shortened

_NAMES = frozenset({"version", "tag", "imageTag", "torch", "uv", "branch", "driver_branch"})
"""Names of properties, and of parts of a JSON text, that hold a version; and those that end with Version do."""
_IMAGES = frozenset({"image", "sourceImage", "bootImage", "imageUri", "installer"})
"""Names of properties that hold an image or an address, with versions in its name."""
_NOT_PINNED = frozenset({"apiVersion", "resourceVersion", "schemaVersion", "templateVersion", "tlsVersion"})
"""What counts something else, or names a form."""
_COUNTED = ("launchTemplate", "launchTemplateSpecification", "versions")
"""Whose `version` counts the changes of a thing, from one again when that is made anew."""

# As long as any version is that a person wrote.
_LONGEST = 64
_IMAGE = re.compile(r"(?P<name>[^@\s]*?)(?::(?P<tag>[\w.-]{1,128}))?(?:@(?P<digest>sha256:[0-9a-f]+))?")
# The branch of NVIDIA's driver, and the day, in the names of Google's images:
# ubuntu-accelerator-2404-amd64-with-nvidia-580-v20260820.
_DRIVER = re.compile(r"(?<=nvidia-)[0-9]{3}(?![0-9])")
_DAY = re.compile(r"(?<=-v)20[0-9]{6}(?![0-9])")
_NUMBERS = re.compile(r"(v?)([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Step:
    """From one version to another of the same thing."""

    what: str
    before: str
    after: str

    @property
    def back(self) -> bool:
        one, other = parsed(self.before), parsed(self.after)
        return one is not None and other is not None and other < one


def check(change: Change, _world: World) -> Iterator[Finding]:
    if change.before is None:
        return
    for pair in change.inputs:
        for step in steps(pair):
            if step.back:
                what = f"{step.what} of {shortened(pair.text, 120)}" if step.what else shortened(pair.text, 120)
                text = f"{change.name}: {what} goes back from {shortened(step.before)} to {shortened(step.after)}"
                yield GOES_BACK.found(change, text)


def steps(pair: ValuePair) -> Iterator[Step]:
    """The versions in one property, at both sides."""
    before, after = _text(pair.before), _text(pair.after)
    if not before or not after or before == after or pair.path[-1] != pair.key:
        return
    if pair.key in _IMAGES:
        yield from _of_images(before, after)
    elif (pair.key in _NAMES or pair.key.endswith("Version")) and pair.key not in _NOT_PINNED and not _counted(pair):
        yield Step("", before, after)


def _counted(pair: ValuePair) -> bool:
    return pair.key == "version" and any(key in _COUNTED for key in pair.keys)


def parsed(text: str) -> Version | None:
    """A version that can be compared, by packaging.version; a driver's branch such as R580 is one too."""
    if len(text) > _LONGEST:
        return None
    try:
        return Version(re.sub(r"^[Rr](?=[0-9]+$)", "", text.strip()))
    except InvalidVersion:
        return None


def _of_images(before: str, after: str) -> Iterator[Step]:
    """The tag of the same image, or the driver and the day in its name."""
    one, other = _IMAGE.fullmatch(before), _IMAGE.fullmatch(after)
    if one and other and one["name"] == other["name"] and one["tag"] and other["tag"]:
        yield from _of_tags(one["tag"], other["tag"])
        return
    driver = [_DRIVER.findall(each) for each in (before, after)]
    if all(len(each) == 1 for each in driver):
        yield Step("the driver", driver[0][0], driver[1][0])
    same_but_for_the_day = _DAY.sub("", before) == _DAY.sub("", after)
    if same_but_for_the_day and (days := [_DAY.search(each) for each in (before, after)]) and all(days):
        yield Step("the day", *(day[0] for day in days if day))


def _of_tags(before: str, after: str) -> Iterator[Step]:
    """Tags as they are, or the numbers before the same ending, as in 12.4.1-cudnn-runtime-ubuntu22.04."""
    if parsed(before) and parsed(after):
        yield Step("the tag", before, after)
        return
    one, other = _NUMBERS.fullmatch(before), _NUMBERS.fullmatch(after)
    if one and other and one[3] == other[3]:
        yield Step("the tag", one[2], other[2])


def _text(value: Any) -> str:
    """A version as text; a whole number is one too."""
    if isinstance(value, str):
        return value if len(value) <= 1000 else ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**12 else ""
