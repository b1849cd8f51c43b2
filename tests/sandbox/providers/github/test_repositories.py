"""Repositories: their names, their life, and what looks them up."""

from __future__ import annotations

from pulumi_sandbox.providers.github import types

from tests.sandbox.providers.github.conftest import Hub


def test_a_repository_s_name_is_there_once(hub: Hub) -> None:
    hub.repository()
    assert hub.refused(types.REPOSITORY, name="web").endswith("web already exists")


def test_a_lookup_answers_what_the_stack_made_and_a_number_of_its_own_for_everything_else(hub: Hub) -> None:
    token = "github:index/getRepository:getRepository"
    made = hub.repository(visibility="public", description="the site")
    found = hub.invoke(token, name="web")
    assert (found["repoId"], found["visibility"], found["description"]) == (hub.number(made), "public", "the site")
    one, other = hub.invoke(token, name="one"), hub.invoke(token, fullName="acme/other")
    assert (one["visibility"], one["repoId"] == other["repoId"]) == ("private", False)
    assert hub.invoke(token, fullName="acme/one")["repoId"] == one["repoId"]
    assert hub.invoke(token, fullName="elsewhere/web")["repoId"] != hub.number(made)
    assert hub.invoke("github:index/getOrganization:getOrganization", name="acme")["login"] == "acme"
