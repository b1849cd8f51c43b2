"""The option type of a time such as 50m."""

from __future__ import annotations

import re
from typing import Any

import click

_DURATION = re.compile(r"(\d{1,4})(s|m|h)")
_UNITS = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType[float]):
    """A time such as 50m, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _DURATION.fullmatch(str(value))
        if not found:
            self.fail(f"got {value!r}, expected a time such as 50m, 90s or 5h", param, ctx)
        return float(int(found[1]) * _UNITS[found[2]])
