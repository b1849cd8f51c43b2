"""Errors of a command line, in one form for every command."""

from __future__ import annotations


class UsageError(Exception):
    """The command line is wrong. The message is for the user."""


def usage_error(subject: str, problem: str, got: str, expected: str, command: str = "gpu-smoke") -> UsageError:
    """Return an error in the form that every error of this project has."""
    return UsageError(f"{command}: {subject}: {problem}\n{details(got, expected)}\n  hint: {command} --help")


def unwritable(subject: str, path: str, error: Exception, command: str = "gpu-smoke") -> UsageError:
    """Return the error for an output path that cannot be written."""
    problem = f"cannot be written ({getattr(error, 'strerror', None) or error})"
    return usage_error(subject, problem, path, "a file in an existing folder that you can write to", command)


def details(got: str, expected: str) -> str:
    """Return the lines after the first one."""
    return f"  got: {got!r}\n  expected: {expected}"
