"""Replaces the substitutions of a build, such as $BUILD_ID and ${BUILD_ID}."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = r"[A-Za-z_]\w*"
_SUBSTITUTION = re.compile(rf"\$(?:({_NAME})|{{({_NAME})}})")


def replaced(text: str, values: Mapping[str, object]) -> str:
    """Return the text with the values of known names. Cloud Build leaves unknown names to the shell."""
    return _SUBSTITUTION.sub(lambda found: str(values.get(found[1] or found[2], found[0])), text)
