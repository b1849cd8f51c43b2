"""GitHub refuses or ignores settings by the organization's plan and the App's permissions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.github.registration import app_jwt
from pulumi_sandbox.providers import rsa_key
from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.app_api import GithubAppApi
from pulumi_sandbox.providers.github.organizations import Organizations
from pulumi_sandbox.providers.invokes import fill
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.sandbox_file import SettingsError

from tests.sandbox.providers.github.conftest import GROUP, RULESET, Hub

API = "https://api.github.com"
WORKFLOW = "acme/web/.github/workflows/gpu.yml@refs/heads/main"
RESTRICTED = {**GROUP, "restrictedToWorkflows": True, "selectedWorkflows": [WORKFLOW]}
UPGRADE = "403 Upgrade to GitHub Pro or make this repository public to enable this feature. []"


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Any]:
    """A hub whose organization is on a plan."""
    made: list[Hub] = []

    def hub(plan: str) -> Hub:
        made.append(Hub(tmp_path / plan, settings=f"github: {{plans: {{acme: {plan}}}}}\n"))
        return made[-1]

    yield hub
    for each in made:
        each.world.close()


@pytest.mark.parametrize(("plan", "restricted"), [("free", False), ("team", False), ("enterprise", True)])
def test_only_enterprise_cloud_restricts_a_group_to_workflows_and_the_others_say_nothing(
    on: Any, plan: str, restricted: bool
) -> None:
    group = on(plan).make(types.RUNNER_GROUP, "gpu", **RESTRICTED)
    assert group.values["restrictedToWorkflows"] is restricted
    assert group.values["selectedWorkflows"] == ([WORKFLOW] if restricted else [])


def test_a_restriction_that_was_left_out_is_tried_again_by_every_update(on: Any) -> None:
    hub = on("team")
    group = hub.make(types.RUNNER_GROUP, "gpu", **RESTRICTED)
    again = {"restrictedToWorkflows": "UPDATE", "selectedWorkflows": "UPDATE"}
    assert hub.diff(group, **RESTRICTED) == again
    assert hub.update(group, **RESTRICTED).values["restrictedToWorkflows"] is False
    larger = on("enterprise")
    assert larger.diff(group, **RESTRICTED) == again
    assert larger.diff(larger.make(types.RUNNER_GROUP, "gpu", **RESTRICTED), **RESTRICTED) == {}


@pytest.mark.parametrize(
    ("plan", "visibility", "error"),
    [
        ("free", "private", f"POST {API}/repos/acme/web/rulesets: {UPGRADE}"),
        ("free", "public", ""),
        ("team", "private", ""),
    ],
)
def test_rules_of_a_private_repository_need_a_paid_plan(on: Any, plan: str, visibility: str, error: str) -> None:
    hub = on(plan)
    hub.repository(visibility=visibility)
    if error:
        assert hub.refused(types.RULESET, **RULESET) == error
    else:
        hub.make(types.RULESET, "main", **RULESET)


# -- Apps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("github: {plans: {acme: gold}}", "github.plans.acme: unknown value\n  got: gold\n  expected: free, team"),
        ("github: {apps: {17: {secrets: all}}}", 'github.apps["17"].secrets: unknown value\n  got: all'),
        ("github: {apps: {17: admin}}", 'github.apps["17"]: wrong form\n  got: "admin"\n  expected: a map'),
        ("github: {plan: team}", "github.plan: no such entry\n  expected: apps, plans"),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_its_place(tmp_path: Path, settings: str, text: str) -> None:
    (tmp_path / "sandbox.yaml").write_text(settings)
    with pytest.raises(SettingsError) as caught:
        Organizations.read(tmp_path / "sandbox.yaml")
    assert text in str(caught.value)


def token(hub: Hub, app: str, key_of: str, permissions: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Return GitHub's answer to App `app`, which signs with the key of App `key_of`."""
    apps = {"17": {"administration": "write"}, "27": {"organization_self_hosted_runners": "write"}}
    api = GithubAppApi(hub.world, organizations=Organizations(apps=apps))
    jwt = app_jwt(app, rsa_key.private_key(hub.world, key_of).encode(), int(time.time()))
    body = {"permissions": permissions} if permissions else {}
    answer = api.answer(Call("POST", "/app/installations/28/access_tokens", {}, f"Bearer {jwt}", body))
    return answer.status, json.loads(answer.body)


def test_every_listed_app_has_a_key_of_its_own_and_its_own_permissions(hub: Hub) -> None:
    runners = {"organization_self_hosted_runners": "write"}
    assert token(hub, "27", "27")[1]["permissions"] == runners
    assert token(hub, "27", "17") == (401, refusal("A JSON web token could not be decoded", 401))
    assert token(hub, "37", "37")[0] == 201
    assert token(hub, "17", "17", runners)[0] == 422


def test_a_lookup_names_the_key_of_an_app_by_its_id(hub: Hub) -> None:
    scope = {"made": rsa_key.GeneratedValues(hub.world)}
    assert fill("${made.rsaPrivateKeys.27}", scope, "a lookup") == rsa_key.private_key(hub.world, "27")
    assert rsa_key.private_key(hub.world, "27") != rsa_key.private_key(hub.world, "17")


def refusal(message: str, status: int) -> dict[str, str]:
    return {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
