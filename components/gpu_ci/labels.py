"""Validates labels of Google Cloud resources. Every Google Cloud service accepts a valid label."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from .errors import invalid

# cloud.google.com/compute/docs/labeling-resources, "Requirements for labels". That page also allows international
# characters. They are refused here, because not every service accepts them.
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MOST = 64
_RESERVED_PREFIX = "gpu-ci-"


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise invalid(
            "the key is not a valid label key", "not-a-label", expected="a-z, 0-9, _ and -, a letter first, at most 63"
        )
    return key


def _not_reserved(key: str) -> str:
    if key.startswith(_RESERVED_PREFIX):
        raise invalid(
            f"keys that start with {_RESERVED_PREFIX} are reserved for the labels of this package",
            "reserved-name",
            hint="rename it",
        )
    return key


def _value(value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise invalid("is not a valid label value", "not-a-label", expected="a-z, 0-9, _ and -, at most 63")
    return value


def _at_most(most: int) -> Callable[[Any], Any]:
    def check(labels: Any) -> Any:
        if len(labels) > most:
            raise invalid(f"has more than {most} labels", "too-many")
        return labels

    return check


_Key = Annotated[str, AfterValidator(_key)]
_Value = Annotated[str, AfterValidator(_value)]

# One label less than Google's limit, because a check machine gets one additional label.
AllLabels = Annotated[dict[_Key, _Value], AfterValidator(_at_most(_MOST - 1))]
"""All labels of a resource, including the labels that gpu-ci adds."""

# Four labels less than Google's limit, because components add up to four labels.
Labels = Annotated[dict[Annotated[_Key, AfterValidator(_not_reserved)], _Value], AfterValidator(_at_most(_MOST - 4))]
"""The labels that users choose. Their keys must not start with this package's prefix."""


def merge(*maps: Mapping[str, str]) -> dict[str, str]:
    """Merge labels into one map. Values of later maps override earlier values.

    The keys are sorted, so that another order of the labels is no difference in a preview.
    """
    merged: dict[str, str] = {}
    for part in maps:
        merged.update(part)
    return dict(sorted(merged.items()))
