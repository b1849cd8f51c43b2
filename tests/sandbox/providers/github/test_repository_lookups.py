"""Lookups of repositories, where sandbox.yaml says which ones are on GitHub and where it does not."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox.providers.github.conftest import Hub

TOKEN = "github:index/getRepository:getRepository"
LISTED = "exists: {github: [acme/web, acme/docs-*]}\n"


def test_a_repository_that_is_neither_listed_nor_made_is_answered_with_nothing(tmp_path: Path) -> None:
    hub = Hub(tmp_path, settings=LISTED)
    assert hub.invoke(TOKEN, name="wbe") == {}
    assert hub.invoke(TOKEN, fullName="elsewhere/web") == {}
    # Nothing was found, so nothing is there to refer to either.
    assert hub.cloud.existing.looked_up == []


def test_a_repository_that_is_listed_or_made_is_answered(tmp_path: Path) -> None:
    hub = Hub(tmp_path, settings=LISTED)
    assert hub.invoke(TOKEN, name="WEB")["visibility"] == "private"
    assert hub.invoke(TOKEN, fullName="acme/docs-one")["fullName"] == "acme/docs-one"
    made = hub.repository("made")
    assert hub.invoke(TOKEN, name="made")["repoId"] == hub.number(made)
