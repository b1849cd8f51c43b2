"""What day it is; tests set another."""

from __future__ import annotations

from datetime import date


def today() -> date:
    """Today, where this command runs."""
    return date.today()
