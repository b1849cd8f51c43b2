"""One error for all mistakes of a call of `gpu-ci init` or `gpu-ci new-project`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from gpu_ci.cli.output import InputError
from gpu_ci.errors import Problem, report


def mistakes(problems: Mapping[str, Sequence[Problem]]) -> InputError:
    """Return one error for problems by subject: a file, or the command for its options."""
    error = InputError("\n".join(report(subject, each) for subject, each in problems.items()) + "\nnothing was written")
    error.problems = [
        {
            **{name: value for name, value in asdict(each).items() if value and name != "path"},
            "text": ": ".join(filter(None, (subject, each.path, each.text))),
        }
        for subject, found in problems.items()
        for each in found
    ]
    return error
