"""The error that every part of a preview raises."""

from __future__ import annotations


class PreviewError(Exception):
    """There is no preview, or none of a stack. The message has the reason, what was expected, and a hint."""
