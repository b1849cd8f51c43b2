"""Finds GitHub Apps that exist already: those whose numbers other stack files of the folder have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli.init.repository import ADMIN_APP, MANAGER_APP, RUNNER_APP
from gpu_ci.cli.stack_files import read
from gpu_ci.stack.site import SITE

_FIELDS = {"id": int, "installationId": int, "privateKey": str}


def find(folder: Path, project: str, organization: str) -> dict[str, Mapping[str, Any]]:
    """Return the fields of each App of stack files for the same organization and Google Cloud project, by its key.

    An App with the numbers that `gpu-ci init` writes does not exist yet. A stack file that cannot be read has no Apps:
    `gpu-ci check` reports its mistakes.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(folder.glob("Pulumi.*.yaml")):
        try:
            file = read(path)
        except click.ClickException:
            continue
        site = file.value(SITE)
        github = site.get("github") if isinstance(site, Mapping) else None
        if file.project != project or not isinstance(github, Mapping) or github.get("owner") != organization:
            continue
        for app in (ADMIN_APP, RUNNER_APP, MANAGER_APP):
            given = github.get(app.key)
            fields = {name: given.get(name) for name in _FIELDS} if isinstance(given, Mapping) else {}
            complete = fields and all(isinstance(fields[name], kind) for name, kind in _FIELDS.items())
            if complete and fields["id"] != app.id:
                found.setdefault(app.key, fields)
    return found
