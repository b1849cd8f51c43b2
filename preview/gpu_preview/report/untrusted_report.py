"""Reads a report of an untrusted job, which ran a pull request's code.

The JSON is data only. Its size is limited before it is parsed, and the model of a report validates it. Links to other
files are not followed, and Markdown or HTML next to the file is not used.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationError

from ..isolation import safe_open
from ..model import Report

# A report on 1,000 resources, each with ten properties that differ, is about 4 MiB.
MAX_BYTES = 16 * 1024**2
_MADE_BY = re.compile(r"gpu-ci \d[0-9A-Za-z.+-]{0,60}")
_PROBLEMS = 5
_CHARACTERS = 200


class ReceivedError(Exception):
    """The report cannot be shown. The text says why, and contains no workflow commands."""


def load_untrusted(path: Path, commit: str = "") -> Report:
    """Return the report.

    Args:
        path: The report file, such as report.json in the folder of the artifact.
        commit: The commit of the run. A report of another commit or without a commit is refused. Reports of drift and
            of previews with credentials have no commit.

    Raises:
        FileNotFoundError: the report is missing.
        ReceivedError: the file is not a valid report.
    """
    try:
        report = Report.model_validate_json(_bytes(path))
    except ValidationError as error:
        raise ReceivedError(_explained(path, error)) from None
    if not _MADE_BY.fullmatch(report.made_by):
        raise ReceivedError(f"{path}: madeBy: is no version of gpu-ci\n  expected: for example `gpu-ci 0.1.0`")
    if commit and report.how in ("credentials", "drift"):
        raise ReceivedError(
            f"{path}: how: a report of the kind {report.how} has no commit\n"
            "  expected: base or state, for a pull request"
        )
    if commit and report.head.commit != commit:
        raise ReceivedError(
            f"{path}: head.commit: the report and the run have different commits\n  expected: {commit}\n"
            "  hint: check out github.event.pull_request.head.sha, not the merge commit that GitHub creates"
        )
    return report


def _bytes(path: Path) -> bytes:
    try:
        with safe_open.open_regular(path) as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except safe_open.NotRegularFileError:
        raise ReceivedError(f"{path}: is no plain file") from None
    except OSError as error:
        raise ReceivedError(f"{path}: cannot be read: {error.strerror}\n  expected: a plain file") from None
    if len(content) > MAX_BYTES:
        raise ReceivedError(f"{path}: is larger than {MAX_BYTES // 1024**2} MiB")
    return content


def _explained(path: Path, error: ValidationError) -> str:
    """Return the problems without the values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"  {plain('.'.join(map(str, one['loc'])))}: {plain(one['msg'])}" for one in found]
    more = [f"  and {len(lines) - _PROBLEMS} more"] if len(lines) > _PROBLEMS else []
    return "\n".join([f"{path}: is no report of version 1", *lines[:_PROBLEMS], *more])


def plain(text: str) -> str:
    """Return an untrusted text for a log: one short line of ASCII."""
    return ascii(text)[1:-1][:_CHARACTERS]
