"""Validates the tags of a user. Every AWS service accepts a valid tag."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from ...errors import at_path, invalid, raise_problems

# docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html, "Tag restrictions". Letters of other scripts are
# excluded, because not every service accepts them.
_KEY = re.compile(r"[A-Za-z0-9 +\-=._:/@]{1,128}")
_VALUE = re.compile(r"[A-Za-z0-9 +\-=._:/@]{0,256}")
_MOST_TAGS = 50
_PREFIX_OF_PACKAGE, _PREFIX_OF_AWS = "gpu-ci-", "aws:"


def _check(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > _MOST_TAGS - 4:  # components and EKS add up to 4 tags
        raise invalid(f"has more than {_MOST_TAGS - 4} tags", "too-many", hint="a resource has at most 50")
    problems = []
    for key, value in tags.items():
        if key.startswith(_PREFIX_OF_PACKAGE):
            error = invalid(
                f"keys that start with {_PREFIX_OF_PACKAGE} are reserved for this package",
                "reserved-name",
                hint="rename it",
            )
        elif key.lower().startswith(_PREFIX_OF_AWS):
            error = invalid(
                f"keys that start with {_PREFIX_OF_AWS} are reserved for AWS", "reserved-name", hint="rename it"
            )
        elif not _KEY.fullmatch(key):
            error = invalid(
                "the key is not valid in AWS", "not-a-tag", expected="letters, digits, spaces and + - = . _ : / @"
            )
        elif not _VALUE.fullmatch(value):
            error = invalid(
                "is not a valid tag value in AWS", "not-a-tag", expected="letters, digits, spaces and + - = . _ : / @"
            )
        else:
            continue
        problems.append(at_path(error, value, key))
    raise_problems(problems)
    return tags


Tags = Annotated[dict[str, str], AfterValidator(_check)]
"""Tags from a user. The keys that gpu-ci and AWS reserve are not allowed."""
