"""Labels in the form every Google service takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from .errors import invalid, whole_value

# cloud.google.com/compute/docs/labeling-resources, "Requirements for labels"; the international letters it also allows
# are left out, because not every service takes them.
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MOST = 64
_OURS = "gpu-ci-"


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise invalid("the key is not one Google takes", expected="a-z, 0-9, _ and -, a letter first, at most 63")
    return key


def _not_ours(key: str) -> str:
    if key.startswith(_OURS):
        raise invalid(f"keys that start with {_OURS} are kept for this package's own labels", hint="rename it")
    return key


def _value(value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise invalid("is not a value Google takes", expected="a-z, 0-9, _ and -, at most 63")
    return value


def _at_most(most: int) -> Callable[[Any], Any]:
    def check(labels: Any) -> Any:
        if len(labels) > most:
            raise invalid(f"has more than {most} labels")
        return labels

    return check


_Key = Annotated[str, AfterValidator(_key)]
_Value = Annotated[str, AfterValidator(_value)]

# The check machine gets one more.
AllLabels = Annotated[dict[_Key, _Value], whole_value(_at_most(_MOST - 1))]
"""Google labels, sorted out before any cloud sees them."""

# Room for those that components add.
Labels = Annotated[dict[Annotated[_Key, AfterValidator(_not_ours)], _Value], whole_value(_at_most(_MOST - 4))]
"""Those a person chooses, none of which may pass for one of this package's."""


def merge(*maps: Mapping[str, str]) -> dict[str, str]:
    """All labels in one map, the later part winning, in a fixed order so that no diff comes from ordering."""
    merged: dict[str, str] = {}
    for part in maps:
        merged.update(part)
    return dict(sorted(merged.items()))
