"""What is wrong with a command line: one form for every command."""

from __future__ import annotations


class UsageError(Exception):
    """The command cannot be run as it was given; the text is for the person who typed it."""


def usage_error(subject: str, problem: str, got: str, expected: str, command: str = "gpu-smoke") -> UsageError:
    """The form that every error of this project has."""
    return UsageError(f"{command}: {subject}: {problem}\n{details(got, expected)}\n  hint: {command} --help")


def unwritable(subject: str, path: str, error: Exception, command: str = "gpu-smoke") -> UsageError:
    """For a place that was asked for and cannot be written to."""
    problem = f"cannot be written ({getattr(error, 'strerror', None) or error})"
    return usage_error(subject, problem, path, "a file in a folder that exists and is yours", command)


def details(got: str, expected: str) -> str:
    """The lines below the first one."""
    return f"  got: {got!r}\n  expected: {expected}"
