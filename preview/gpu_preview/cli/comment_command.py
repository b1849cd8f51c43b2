"""The command `gpu-ci preview-comment`, which posts the report of a pull request's job as a comment."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
from gpu_ci.cli.output import InputError, ProblemsFound, note, print_json


@click.command("preview-comment")
@click.argument("file", type=click.Path(path_type=Path), metavar="REPORT.JSON")
@click.option("--author", default="github-actions[bot]", show_default=True, metavar="LOGIN",
              help="The account of the token; the command changes only comments of this account.")  # fmt: skip
@click.option("--key", default="", metavar="KEY", callback=lambda _, __, value: _key(value),
              help="Distinguishes the comments of several projects in one repository.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(file: Path, author: str, key: str, as_json: bool) -> None:
    """Post report.json of `gpu-ci preview` as a comment on the pull request, or update the existing comment.

    Run it in a job of a `workflow_run`, which may write to pull requests and runs none of their code
    (docs/guides/preview-on-github.md). The report is untrusted: the command validates it and renders its Markdown
    itself. It reads GITHUB_TOKEN, GITHUB_EVENT_PATH and GITHUB_API_URL from the environment.

    If the run has no report, the comment of an earlier run is replaced by a note. If the pull request changes the
    workflow that made the report, the comment begins with a warning.

    \b
    Exit codes:
      0  posted, or nothing to do: no report and no comment, no open pull
         request, or the pull request has a newer commit
      1  the report is invalid, or GitHub rejects a request
      2  not in a job of a `workflow_run`

    \b
    Examples:
      gpu-ci preview-comment artifact/report.json
      gpu-ci preview-comment --key network artifact/report.json
    """
    from gpu_preview.report import markdown
    from gpu_preview.report.comment import Account, CommentError, EventError, Head, load_untrusted, post

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
            # The report of a run for another event is not posted, so its commit is not checked.
            report = load_untrusted(file, head.commit if head.event == "pull_request" else "")
        except FileNotFoundError:
            report = None
        done = post(report, head, Account(token, api_url, author, key), markdown.render)
    except EventError as error:
        raise InputError(f"gpu-ci preview-comment: {error}") from None
    except CommentError as error:
        raise ProblemsFound(f"gpu-ci preview-comment: {error}", [{"text": str(error)}]) from None
    if as_json:
        print_json({"done": done.action, "text": done.text})
    else:
        note(f"gpu-ci preview-comment: {done.action}: {done.text}")


def _key(value: str) -> str:
    """Return a valid key: it is written into an HTML comment and must not end the comment."""
    if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.]{0,63}", value):
        raise InputError(
            f"gpu-ci preview-comment: --key {value}: is not a valid key",
            expected="1 to 64 letters, digits, dots and underscores, the first one a letter or a digit",
            hint="such as --key network",
        )
    return value
