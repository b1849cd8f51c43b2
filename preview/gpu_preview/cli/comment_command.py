"""`gpu-ci preview-comment`: a report that a pull request's job made, on the pull request."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
from gpu_ci.cli.output import InputError, ProblemsFound, note, print_json


@click.command("preview-comment")
@click.argument("file", type=click.Path(path_type=Path), metavar="REPORT.JSON")
@click.option("--author", default="github-actions[bot]", show_default=True, metavar="LOGIN",
              help="The account that the token writes as; only its own comment is changed.")  # fmt: skip
@click.option("--key", default="", metavar="KEY", callback=lambda _, __, value: _key(value),
              help="Distinguishes the comments of several projects of one repository.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="What was done as JSON.")
def command(file: Path, author: str, key: str, as_json: bool) -> None:
    """Put what `gpu-ci preview` wrote as report.json on the pull request, as one comment that is kept up to date.

    This is for the job of a `workflow_run`, which may write on pull requests and runs nothing of theirs
    (docs/guides/preview-on-github.md). The report is taken as data that anybody could have made: it is checked, and its
    Markdown is made here. The token is GITHUB_TOKEN; GITHUB_EVENT_PATH and GITHUB_API_URL are GitHub's own.

    Where the run left no report, a comment of an earlier run is replaced by that fact. Where the pull request changes
    the workflow that made the report, the comment begins with it.

    The exit code is 0 also where there is nothing to do: no report and no comment, no open pull request, or a pull
    request that has another commit by now. It is 1 for a report that is none and where GitHub refuses, and 2 outside of
    such a job.

    \b
    Examples:
      gpu-ci preview-comment artifact/report.json
      gpu-ci preview-comment --key network artifact/report.json
    """
    from gpu_preview.report import markdown
    from gpu_preview.report.comment import Account, CommentError, post
    from gpu_preview.report.pull_requests import EventError, Head
    from gpu_preview.report.untrusted_report import ReceivedError, load_untrusted

    token, event = os.environ.get("GITHUB_TOKEN"), os.environ.get("GITHUB_EVENT_PATH")
    if not token or not event:
        missing = " and ".join(name for name in ("GITHUB_TOKEN", "GITHUB_EVENT_PATH") if not os.environ.get(name))
        raise InputError(
            f"gpu-ci preview-comment: {missing} not set",
            expected="a job of GitHub Actions, started by workflow_run",
            hint="env: {GITHUB_TOKEN: ${{ github.token }}}",
        )
    api_url = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    try:
        head = Head.read(Path(event))
        try:
            # Of another run nothing is written, so its report may be of no commit.
            report = load_untrusted(file, head.commit if head.event == "pull_request" else "")
        except FileNotFoundError:
            report = None
        done = post(report, head, Account(token, api_url, author, key), markdown.render)
    except EventError as error:
        raise InputError(f"gpu-ci preview-comment: {error}") from None
    except (ReceivedError, CommentError) as error:
        raise ProblemsFound(f"gpu-ci preview-comment: {error}", [{"text": str(error)}]) from None
    if as_json:
        print_json({"done": done.what, "text": done.text})
    else:
        note(f"gpu-ci preview-comment: {done.what}: {done.text}")


def _key(value: str) -> str:
    """A part of an HTML comment, which must not end it."""
    if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.]{0,63}", value):
        raise InputError(
            f"gpu-ci preview-comment: --key {value}: is no key",
            expected="1 to 64 letters, digits, dots and underscores, the first one a letter or a digit",
            hint="such as --key network",
        )
    return value
