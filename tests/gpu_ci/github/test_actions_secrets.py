"""The resources of secrets and variables on GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from google.protobuf import json_format
from gpu_ci.errors import ArgsError
from gpu_ci.github.actions_secrets import ActionsSecrets, ActionsSecretsArgs
from gpu_common import pulumi_wire

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import CALLS, COMPUTED

HUSH = "hush-hush-hush"
SEALED = {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "value": HUSH}


def run(program: Callable[[], Any], **options: Any) -> Deployment:
    return deploy(program, computed=COMPUTED, calls=CALLS, **options)


def secrets(scope: dict[str, Any], variables: dict[str, str] | None = None, **options: Any) -> Deployment:
    """A secret and these variables in a scope."""

    def program() -> None:
        hidden = {"deploy_token": pulumi.Output.secret(HUSH)}
        ActionsSecrets("ci", ActionsSecretsArgs(scope=scope, secrets=hidden, variables=variables or {}))

    return run(program, **options)


REPOSITORY = {"kind": "repository", "repository": "web"}


def test_an_organization_that_selects_nothing_looks_nothing_up() -> None:
    def program() -> None:
        scope = {"kind": "organization", "visibility": "private"}
        ActionsSecrets("ci", ActionsSecretsArgs(scope=scope, variables={"REGION": "us"}))

    made = deploy(program, computed=COMPUTED)
    assert made.one(":ActionsOrganizationVariable").inputs == {
        "visibility": "private",
        "variableName": "REGION",
        "value": "us",
    }


def test_a_secret_is_nowhere_in_plain_text() -> None:
    made = secrets({"kind": "organization", "repositories": ["web"]}, {"REGION": "us"})
    for row in made.rows:
        told = json_format.MessageToDict(row.request)
        if told["object"].get("value") == SEALED:
            del told["object"]["value"]
        assert HUSH not in json.dumps(told), row.name
    assert HUSH not in json.dumps(made.outputs)


def test_a_secret_in_plain_text_is_refused_and_not_shown() -> None:
    with pytest.raises(ArgsError) as caught:
        run(lambda: ActionsSecrets("ci", ActionsSecretsArgs(scope=REPOSITORY, secrets={"TOKEN": HUSH})))
    assert str(caught.value).endswith(
        "secrets.TOKEN: must be a secret Output, so that neither state nor logs have it in plain text\n"
        "  got: a value that is not shown, because it may be a secret\n"
        "  expected: secrets by name, 1 to 49152 bytes each; every value must be a secret Output. At most 100 in a "
        "repository or an environment, 1000 in an organization\n"
        "  hint: pulumi.Output.secret(...), config.require_secret(...), or what get_secret_version_output(...) returns"
    )
    assert HUSH not in str(caught.value)


def test_a_value_that_turns_out_not_to_be_secret_fails_the_deployment() -> None:
    def program() -> None:
        open_ = pulumi.Output.from_input(HUSH)
        ActionsSecrets("ci", ActionsSecretsArgs(scope=REPOSITORY, secrets={"TOKEN": open_}))

    with pytest.raises(ArgsError, match=r"ActionsSecrets 'ci': secrets\.TOKEN: must be a secret Output") as caught:
        run(program)
    assert HUSH not in str(caught.value)
