"""Labels in the form every Google service takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator

from .errors import invalid, located, refuse

# cloud.google.com/compute/docs/labeling-resources, "Requirements for labels"; the international letters it also allows
# are left out, because not every service takes them.
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MOST = 64
_OURS = "gpu-ci-"


def _check(labels: dict[str, str]) -> dict[str, str]:
    error = invalid(f"keys that start with {_OURS} are kept for this package's own labels", hint="rename it")
    refuse([located(error, value, key) for key, value in labels.items() if key.startswith(_OURS)])
    return labels


def _at_most(most: int) -> Callable[[dict[str, str]], dict[str, str]]:
    def check(labels: dict[str, str]) -> dict[str, str]:
        if len(labels) > most:
            raise invalid(f"has more than {most} labels")
        return labels

    return check


def _form(labels: dict[str, str]) -> dict[str, str]:
    problems = []
    for key, value in labels.items():
        if not _KEY.fullmatch(key):
            error = invalid("the key is not one Google takes", expected="a-z, 0-9, _ and -, a letter first, at most 63")
        elif not _VALUE.fullmatch(value):
            error = invalid("is not a value Google takes", expected="a-z, 0-9, _ and -, at most 63")
        else:
            continue
        problems.append(located(error, value, key))
    refuse(problems)
    return labels


# The check machine gets one more.
AllLabels = Annotated[dict[str, str], AfterValidator(_at_most(_MOST - 1)), AfterValidator(_form)]
"""Google labels, sorted out before any cloud sees them."""

# Room for those that components add.
Labels = Annotated[dict[str, str], AfterValidator(_at_most(_MOST - 4)), AfterValidator(_form), AfterValidator(_check)]
"""Those a person chooses, none of which may pass for one of this package's."""


def merge(*parts: Mapping[str, str]) -> dict[str, str]:
    """All labels in one map, the later part winning, in a fixed order so that no diff comes from ordering."""
    merged: dict[str, str] = {}
    for part in parts:
        merged.update(part)
    return dict(sorted(merged.items()))
