"""What machines of the sandbox ask of Secret Manager, Cloud Logging and GitHub, over HTTP, and who is refused there."""

from __future__ import annotations

import base64
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.faults import Fault
from pulumi_sandbox.providers import machine_services, rsa_key
from pulumi_sandbox.providers.cloud import Refused
from pulumi_sandbox.providers.gcp_machine_apis import crc32c
from pulumi_sandbox.providers.guest_metadata import token_of
from pulumi_sandbox.providers.local_services import LocalServices
from pulumi_sandbox.world import Record

from tests.sandbox.gcp.api import OPENER, Api, printed, script
from tests.sandbox.gcp.conftest import Google

ACCOUNT = "runner@ci-project.iam.gserviceaccount.com"
KEY = "projects/ci-project/secrets/app-key"
SETTINGS = """
guest: {environment: {SECRETS: "${secretmanager}", MIXED: "${github}/api/v3", PLAIN: x}}
exists:
  gcp: ["projects/ci-project/secrets/*"]
  github: [apps/17/installations/18]
lookups:
  "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess":
    - match: {secret: "*/app-key"}
      secrets: [secretData]
      result: {secretData: "${made.rsaPrivateKey}"}
"""
GROUP = "github:index/actionsRunnerGroup:ActionsRunnerGroup"
JWT_REFUSED = "A JSON web token could not be decoded"


@dataclass
class Client:
    """Asks one of the services as a machine does."""

    google: Google
    services: LocalServices = field(init=False)

    def __post_init__(self) -> None:
        self.services = machine_services.of(self.google.cloud)

    def ask(self, service: str, method: str, path: str, token: str = "", body: Any = None) -> tuple[int, Any]:
        url = self.services.filled({"url": f"${{{service}}}"})["url"]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{url}{path}", data, headers, method=method)  # noqa: S310 - our own server
        try:
            with OPENER.open(request, timeout=30) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def secret(self, name: str = KEY, account: str = ACCOUNT) -> tuple[int, Any]:
        return self.ask("secretmanager", "GET", f"/v1/{name}/versions/latest:access", token_of(account))

    def grant(self, secret: str = KEY, role: str = "roles/secretmanager.secretAccessor") -> None:
        inputs = {"secretId": secret, "role": role, "member": f"serviceAccount:{ACCOUNT}"}
        self.google.make("gcp:secretmanager/secretIamMember:SecretIamMember", "grant", inputs)

    def token(self, **claims: Any) -> tuple[int, Any]:
        return self.ask("github", "POST", "/app/installations/18/access_tokens", self.jwt(**claims), {})

    def jwt(self, key: str = "", **claims: Any) -> str:
        """As an App makes one: RS256 by openssl."""
        now = int(time.time())
        said = {"iss": "17", "iat": now - 60, "exp": now + 540, **claims}
        parts = [_encoded(json.dumps(each).encode()) for each in ({"alg": "RS256", "typ": "JWT"}, said)]
        text = ".".join(parts)
        pem = self.google.folder / "key.pem"
        pem.write_text(key or rsa_key.private_key(self.google.world))
        words = ["openssl", "dgst", "-sha256", "-sign", str(pem)]
        return f"{text}.{_encoded(subprocess.run(words, input=text.encode(), capture_output=True, check=True).stdout)}"

    def installed(self, body: Any = None) -> str:
        status, answer = self.ask("github", "POST", "/app/installations/18/access_tokens", self.jwt(), body)
        assert status == 201, answer
        return str(answer["token"])


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    google = Google(tmp_path, settings=SETTINGS)
    google.cloud.configure(google.config)
    google.make("gcp:serviceaccount/account:Account", "one", {"accountId": "runner"})
    made = Client(google)
    yield made
    made.services.close()
    google.cloud.stop()
    google.world.close()


# -- Secret Manager ---------------------------------------------------------------------------------------------------


def test_a_machine_that_was_granted_a_secret_reads_it(client: Client) -> None:
    client.grant()
    status, answer = client.secret()
    value = base64.b64decode(answer["payload"]["data"])
    assert (status, answer["name"]) == (200, f"{KEY}/versions/1")
    assert value.decode() == rsa_key.private_key(client.google.world)
    assert answer["payload"]["dataCrc32c"] == str(crc32c(value))


def test_the_checksum_is_that_of_castagnoli() -> None:
    """The check value of CRC-32C (RFC 3720, appendix B.4, and every table of CRCs): of the digits 1 to 9."""
    assert crc32c(b"123456789") == 0xE3069283


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
        assert other.secret("projects/ci-project/secrets/a")[1]["payload"]["data"] == "c2FuZGJveC1wbGFjZWhvbGRlcg=="
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
    client.google.world.plant(Fault("refuse", on="gcp:secretmanager/access", message="no"))
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


# -- GitHub -----------------------------------------------------------------------------------------------------------


def test_an_app_gets_a_token_for_its_installation_with_what_it_asks_and_no_more(client: Client) -> None:
    asked = {"permissions": {"organization_self_hosted_runners": "write"}}
    status, answer = client.ask("github", "POST", "/app/installations/18/access_tokens", client.jwt(), asked)
    assert (status, answer["permissions"]) == (201, asked["permissions"])
    assert answer["token"].startswith("ghs_")
    more = {"permissions": {"contents": "write"}}
    status, answer = client.ask("github", "POST", "/app/installations/18/access_tokens", client.jwt(), more)
    assert (status, answer["message"]) == (
        422,
        "The permissions requested are not granted to this installation.",
    )


def test_a_key_that_is_not_the_apps_is_refused(client: Client) -> None:
    other = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, text=True, check=True).stdout
    token = client.jwt(other)
    status, answer = client.ask("github", "POST", "/app/installations/18/access_tokens", token, {})
    assert (status, answer["message"]) == (401, JWT_REFUSED)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "e30.e30.e30"])
def test_what_is_no_json_web_token_is_refused(client: Client, token: str) -> None:
    status, answer = client.ask("github", "POST", "/app/installations/18/access_tokens", token, {})
    assert (status, answer["message"]) == (401, JWT_REFUSED)


def test_claims_that_were_changed_after_signing_are_refused(client: Client) -> None:
    head, claims, signature = client.jwt().split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    changed = _encoded(json.dumps({**said, "exp": said["exp"] + 1}).encode())
    token = f"{head}.{changed}.{signature}"
    assert client.ask("github", "POST", "/app/installations/18/access_tokens", token, {})[0] == 401


@pytest.mark.parametrize(
    ("claims", "status", "message"),
    [
        ({"iss": "19"}, 404, "Integration not found"),
        ({"exp": 1}, 401, "'Expiration time' claim ('exp') must be a numeric value representing the future time"),
        ({"exp": 2**40}, 401, "'Expiration time' claim ('exp') is too far in the future"),
        ({"iat": 2**40}, 401, "'Issued at' claim ('iat') must be an Integer representing the time"),
    ],
)
def test_an_app_that_is_not_there_or_whose_clock_is_wrong_is_refused(
    client: Client, claims: Any, status: int, message: str
) -> None:
    found, answer = client.token(**claims)
    assert (found, answer["message"][: len(message)]) == (status, message)


def test_an_installation_that_is_not_there_is_not_found(client: Client) -> None:
    status, answer = client.ask("github", "POST", "/app/installations/99/access_tokens", client.jwt(), {})
    assert (status, answer["message"]) == (404, "Not Found")


def test_the_groups_of_an_organization_are_default_and_those_of_the_world(client: Client) -> None:
    rows = (("42", "gpu", "acme"), ("43", "theirs", "other"))
    for number, name, owner in rows:
        address = f"https://api.github.com/orgs/{owner}/actions/runner-groups/{number}/runners"
        found = {"name": name, "visibility": "selected", "runnersUrl": address}
        client.google.world.insert(Record(GROUP, number, name, "", {}, found))
    status, answer = client.ask("github", "GET", "/orgs/acme/actions/runner-groups?per_page=100", client.installed())
    assert (status, answer["total_count"]) == (200, 2)
    assert [(one["id"], one["name"]) for one in answer["runner_groups"]] == [(1, "Default"), (42, "gpu")]
    _, second = client.ask("github", "GET", "/orgs/acme/actions/runner-groups?per_page=1&page=2", client.installed())
    assert [one["name"] for one in second["runner_groups"]] == ["gpu"]


def test_a_runner_is_registered_once_and_removed_once(client: Client) -> None:
    token = client.installed({"permissions": {"organization_self_hosted_runners": "write"}})
    path, asked = "/orgs/acme/actions/runners", {"name": "vm-1", "runner_group_id": 1, "labels": ["gpu"]}
    status, made = client.ask("github", "POST", f"{path}/generate-jitconfig", token, asked)
    assert (status, made["runner"]["name"], made["runner"]["id"]) == (201, "vm-1", 1)
    assert base64.b64decode(made["encoded_jit_config"])
    status, again = client.ask("github", "POST", f"{path}/generate-jitconfig", token, asked)
    assert (status, again["message"]) == (409, "Already exists - A runner with the name vm-1 already exists.")
    assert client.ask("github", "GET", f"{path}?name=vm-1", token)[1]["total_count"] == 1
    assert client.ask("github", "DELETE", f"{path}/1", token) == (204, None)
    assert client.ask("github", "DELETE", f"{path}/1", token)[0] == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [({"runner_group_id": 7}, 404), ({"labels": []}, 422), ({"labels": ["x"] * 101}, 422), ({"name": ""}, 422)],
)
def test_a_runner_github_would_not_take_is_refused(client: Client, change: Any, status: int) -> None:
    asked = {"name": "vm-1", "runner_group_id": 1, "labels": ["gpu"], **change}
    path = "/orgs/acme/actions/runners/generate-jitconfig"
    assert client.ask("github", "POST", path, client.installed(), asked)[0] == status


def test_a_token_does_only_what_it_was_given_for(client: Client) -> None:
    path = "/orgs/acme/actions/runner-groups"
    narrow = client.installed({"permissions": {"administration": "write"}})
    status, answer = client.ask("github", "GET", path, narrow)
    assert (status, answer["message"]) == (403, "Resource not accessible by integration")
    assert client.ask("github", "GET", path, "ghs_made-up")[1]["message"] == "Bad credentials"
    reader = client.installed({"permissions": {"organization_self_hosted_runners": "read"}})
    assert client.ask("github", "GET", path, reader)[0] == 200
    assert client.ask("github", "POST", "/orgs/acme/actions/runners/generate-jitconfig", reader, {})[0] == 403


def test_github_refuses_where_a_fault_says_so(client: Client) -> None:
    client.google.world.plant(Fault("refuse", on="github:rest/token"))
    assert client.token()[0] == 403
    assert client.token()[0] == 201


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


def test_nothing_is_served_before_a_machine_asks_for_an_address(client: Client) -> None:
    assert client.services.filled({"PLAIN": "x"}) == {"PLAIN": "x"}
    assert client.services._server is None


def test_a_service_there_is_not_is_told_when_the_provider_starts(tmp_path: Path) -> None:
    google = Google(tmp_path, settings='guest: {environment: {A: "${gitlab}"}}\n')
    with pytest.raises(Refused) as refused:
        google.cloud.configure(google.config)
    assert str(refused.value) == (
        "sandbox.yaml: guest.environment.A: no such service\n  got: ${gitlab}\n"
        "  expected: ${secretmanager}, ${logging}, ${github}"
    )


def test_a_world_keeps_the_key_it_made_and_another_makes_another(client: Client, tmp_path: Path) -> None:
    key = rsa_key.private_key(client.google.world)
    assert key.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert rsa_key.private_key(client.google.world) == key
    other = Google(tmp_path / "other")
    try:
        assert rsa_key.private_key(other.world) != key
    finally:
        other.world.close()
