"""The shell blocks of the pages that lead to the first deployment, in order: each name that they use was created."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from gpu_ci.cli.init.repository import ADMIN_APP, MANAGER_APP, RUNNER_APP

from bootstrap import google
from bootstrap.settings import Settings
from tests.gpu_ci import support
from tests.gpu_ci.harness import deploy
from tests.test_docs import ROOT, fences

PAGES = [*sorted((ROOT / "docs/start").glob("*.md")), ROOT / "docs/guides/deploy-on-github.md"]
PATHS = (
    r"gs://[\w-]+",
    r"projects/[\w-]+/locations/[\w-]+/keyRings/[\w-]+/cryptoKeys/[\w-]+",
    r"[\w-]+@[\w-]+\.iam\.gserviceaccount\.com",
    r"workloadIdentityPools/[\w-]+",
)
COMPUTED = {**support.COMPUTED, "gcp:projects/iAMCustomRole:IAMCustomRole": {"name": "projects/p/roles/r"}}
SECRETS = {app.secret for app in (ADMIN_APP, RUNNER_APP, MANAGER_APP)}


@cache
def bootstrapped(project: str) -> frozenset[str]:
    """What bootstrap creates in a project, with the settings that its page shows."""
    [shown] = [text for _, text in fences(ROOT / "docs/start/bootstrap.md") if "gpu-ci-bootstrap:settings:" in text]
    settings = Settings(project=project, **yaml.safe_load(shown)["config"]["gpu-ci-bootstrap:settings"])
    rows = {row.name: row.inputs for row in deploy(lambda: google.build(settings), computed=COMPUTED).rows}
    ring, key = rows["keys"], rows["secrets"]
    return frozenset(
        {
            f"gs://{rows['state']['name']}",
            f"projects/{project}/locations/{ring['location']}/keyRings/{ring['name']}/cryptoKeys/{key['name']}",
        }
    )


def commands(page: Path) -> Iterator[list[str]]:
    for language, text in fences(page):
        for line in re.sub(r"\\\n\s*", "", text).splitlines() if language in ("", "sh") else ():
            if line.split()[:1] and line.split()[0] in ("gcloud", "gpu-ci", "pulumi"):
                yield shlex.split(line, comments=True)


def option(words: list[str], name: str, default: str = "") -> str:
    return words[words.index(name) + 1] if name in words else default


def mistakes(page: Path) -> Iterator[str]:
    """Yield what a reader who runs the blocks in order would not find."""
    made: set[str] = set()
    for words in commands(page):
        match words:
            case ["pulumi", "login", *_]:
                made.add("login")
            case ["pulumi", "stack", "init", stack, *_]:
                yield from () if "login" in made else (f"{stack}: no login before pulumi stack init",)
                made.add(stack)
            case ["pulumi", *_]:
                stack = words[3] if words[1:3] == ["stack", "rm"] else option(words, "--stack")
                yield from () if stack in made else (f"the stack of {shlex.join(words)}",)
            case ["gpu-ci", "init", *_]:
                made.add(f"Pulumi.{option(words, '--stack', 'dev')}.yaml")
            case ["gpu-ci", "github-app", "create", file, *_]:
                yield from () if file in made else (file,)
                made |= SECRETS
            case ["gcloud", "secrets", "versions", "access", *_]:
                secret = option(words, "--secret")
                yield from () if secret in made else (secret,)
        for path in (found for pattern in PATHS for word in words for found in re.findall(pattern, word)):
            projects = re.findall(r"acme-ci(?:-prod)?", path)
            yield from () if projects and path in bootstrapped(projects[0]) else (path,)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_the_blocks_of_a_page_use_was_created_before(page: Path) -> None:
    assert [*mistakes(page)] == []


def test_the_pages_name_what_bootstrap_creates() -> None:
    used = {
        path
        for page in PAGES
        for _, text in fences(page)
        for pattern in PATHS
        for path in re.findall(pattern, text)
        if "PROJECT" not in path
    }
    projects = ("acme-ci", "acme-ci-prod")
    assert used == {path for project in projects for path in bootstrapped(project)}
