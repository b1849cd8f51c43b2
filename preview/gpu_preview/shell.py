"""Where a report is shown: on a terminal, and in a step of GitHub Actions, which obeys lines of a certain form."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import click

from .report import Report

# What a step's summary may hold (docs.github.com, "Workflow commands for GitHub Actions", "Step isolation and limits").
_SUMMARY_BYTES = 1024 * 1024


def as_json(report: Report) -> str:
    """The report as its schema has it."""
    return json.dumps(report.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False) + "\n"


def show(text: str) -> None:
    """Print it. In GitHub Actions no line of it is obeyed as a command, whoever wrote it."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        click.echo(text)
        return
    token = secrets.token_hex(16)
    click.echo(f"::stop-commands::{token}\n{text}\n::{token}::")


def annotate(lines: Sequence[str], summary: str) -> None:
    """Print annotations, and put the report on the page of the run where there is one."""
    for line in lines:
        click.echo(line)
    if (file := os.environ.get("GITHUB_STEP_SUMMARY")) and len(summary.encode()) < _SUMMARY_BYTES:
        with Path(file).open("a", encoding="utf-8") as page:
            page.write(summary + "\n")
