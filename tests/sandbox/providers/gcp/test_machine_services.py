"""VMs of the sandbox call Secret Manager and Cloud Logging: addresses, grants and refusals."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import google_crc32c
import pulumi_sandbox
import pytest
from pulumi_sandbox.providers import rsa_key
from pulumi_sandbox.providers.machines import settings
from pulumi_sandbox.providers.machines.metadata import token_of
from pulumi_sandbox.providers.sandbox_file import SettingsError
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.gcp.api import Api, printed, script
from tests.sandbox.providers.gcp.conftest import Google
from tests.sandbox.providers.gcp.machine_client import ACCOUNT, KEY, Client

# -- Secret Manager ---------------------------------------------------------------------------------------------------


def test_a_machine_that_was_granted_a_secret_reads_it(client: Client) -> None:
    client.grant()
    status, answer = client.secret()
    value = base64.b64decode(answer["payload"]["data"])
    assert (status, answer["name"]) == (200, f"{KEY}/versions/1")
    assert value.decode() == rsa_key.private_key(client.google.world, "17")
    assert answer["payload"]["dataCrc32c"] == str(google_crc32c.value(value))


@pytest.mark.parametrize(
    "grant",
    [
        None,
        {"secret": "projects/ci-project/secrets/another"},
        {"role": "roles/secretmanager.viewer"},
    ],
)
def test_a_machine_without_the_right_grant_is_refused_in_googles_words(client: Client, grant: Any) -> None:
    if grant:
        client.grant(**grant)
    status, answer = client.secret()
    assert (status, answer["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert answer["error"]["message"] == (
        f"Permission 'secretmanager.versions.access' denied for resource '{KEY}/versions/latest' (or it may not exist)."
    )


def test_a_grant_is_the_accounts_it_was_given_to(client: Client) -> None:
    client.grant()
    assert client.secret(account="other@ci-project.iam.gserviceaccount.com")[0] == 403


def test_a_role_on_the_project_opens_its_secrets_and_one_that_is_not_there_is_not_found(client: Client) -> None:
    role = {
        "project": "ci-project",
        "role": "roles/secretmanager.secretAccessor",
        "member": f"serviceAccount:{ACCOUNT}",
    }
    client.google.make("gcp:projects/iAMMember:IAMMember", "reader", role)
    assert client.secret()[0] == 200
    assert client.secret("projects/elsewhere/secrets/app-key")[0] == 403
    again = Google(client.google.folder / "again", settings="exists: {gcp: [projects/ci-project/secrets/a]}\n")
    again.make("gcp:serviceaccount/account:Account", "one", {"accountId": "runner"})
    again.make("gcp:projects/iAMMember:IAMMember", "reader", role)
    other = Client(again)
    try:
        assert other.secret("projects/ci-project/secrets/a")[1]["payload"]["data"] == "c2FuZGJveC1wbGFjZWhvbGRlci1vZi1h"
        status, answer = other.secret()
        assert (status, answer["error"]["status"]) == (404, "NOT_FOUND")
    finally:
        other.services.close()
        again.world.close()


@pytest.mark.parametrize("token", ["", "ya29.somebody-elses", "ya29.pulumi-sandbox.%%%"])
def test_a_token_the_metadata_server_did_not_give_is_refused(client: Client, token: str) -> None:
    status, answer = client.ask("secretmanager", "GET", f"/v1/{KEY}/versions/latest:access", token)
    assert (status, answer["error"]["status"]) == (401, "UNAUTHENTICATED")


def test_a_planted_refusal_strikes_the_request(client: Client) -> None:
    client.grant()
    client.google.world.add_fault(Fault("refuse", on="gcp:secretmanager/access", message="no"))
    assert client.secret()[1]["error"]["message"] == "no"
    assert client.secret()[0] == 200


# -- Cloud Logging ----------------------------------------------------------------------------------------------------


def test_only_who_may_write_logs_does(client: Client) -> None:
    entry = {"entries": [{"logName": "projects/ci-project/logs/gpu", "textPayload": "x"}]}
    status, answer = client.ask("logging", "POST", "/v2/entries:write", token_of(ACCOUNT), entry)
    assert (status, answer["error"]["status"]) == (403, "PERMISSION_DENIED")
    writer = {"project": "ci-project", "role": "roles/logging.logWriter", "member": f"serviceAccount:{ACCOUNT}"}
    client.google.make("gcp:projects/iAMMember:IAMMember", "writer", writer)
    assert client.ask("logging", "POST", "/v2/entries:write", token_of(ACCOUNT), entry) == (200, {})
    assert client.ask("logging", "POST", "/v2/entries:write", token_of(ACCOUNT), {})[0] == 400


# -- from a machine ---------------------------------------------------------------------------------------------------


def test_a_machine_finds_them_by_its_environment_and_asks_with_its_own_identity(client: Client) -> None:
    client.grant()
    lines = (
        'token=$(curl -sS -H "Metadata-Flavor: Google" "http://$GCE_METADATA_HOST/computeMetadata/v1/instance/'
        'service-accounts/default/token" | sed "s/.*access_token\\": \\"\\([^\\"]*\\).*/\\1/")\n'
        f'curl -sS -o /dev/null -w "%{{http_code}}\\n" -H "Authorization: Bearer $token" '
        f'"$SECRETS/v1/{KEY}/versions/latest:access"\n'
        'echo "$PLAIN ${MIXED##*/github}"; shutdown -h now'
    )
    template = client.google.template(**script(lines), serviceAccount={"email": ACCOUNT, "scopes": ["cloud-platform"]})
    api = Api(client.google)
    api.insert(template.id)
    assert printed(api.off())[:2] == ["200", "x /api/v3"]


def test_addresses_are_for_machines_and_not_for_containers(client: Client) -> None:
    workspace = client.google.workspace
    found = settings.guest(workspace.settings_file, workspace.project)
    assert found.environment == {"PLAIN": "x"}
    assert found.addresses == {"SECRETS": "${secretmanager}", "MIXED": "${github}/api/v3"}


def test_a_variable_may_name_the_folder_of_an_installed_package(client: Client) -> None:
    workspace = client.google.workspace
    workspace.settings_file.write_text("guest: {environment: {A: '${package.pulumi_sandbox}/x'}}\n")
    found = settings.guest(workspace.settings_file, workspace.project)
    assert found.environment == {"A": f"{Path(pulumi_sandbox.__file__).parent}/x"}
    workspace.settings_file.write_text("guest: {environment: {A: '${package.nowhere}/x'}}\n")
    with pytest.raises(SettingsError, match=r"got: \$\{package\.nowhere\}\n  expected: .*\$\{package\.NAME\}"):
        settings.guest(workspace.settings_file, workspace.project)
