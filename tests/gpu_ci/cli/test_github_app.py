"""`gpu-ci github-app`: the page, the way through GitHub, and the keys in secret stores."""

from __future__ import annotations

import base64
import html
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httplib2  # type: ignore[import-untyped]
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gpu_ci.aws.limits import eks_api
from gpu_ci.cli import google_api
from gpu_ci.cli.github_app import listener, secret_store
from gpu_ci.cli.github_app.apps import DUTIES, App
from gpu_ci.cli.output import InputError
from gpu_ci.cli.programs import NotAskedError

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.gpu_ci.cli.doctor.programs import SECRETS, Account, connect
from tests.gpu_ci.cli.json_server import json_server

STACK = """\
config:
  gcp:project: acme-ci
  gpu-ci:site:
    networks: {us-central1: {ipRange: 10.10.0.0/20}}
    github:
      owner: acme
      # Replaced by the command.
      app: {id: 1, installationId: 11, privateKey: projects/acme-ci/secrets/admin-key}
      managerApp: {id: 3, installationId: 13, privateKey: projects/acme-ci/secrets/manager-key}
  gpu-ci:github: {runnerGroup: {repositories: [kernels]}}
  gpu-ci:pools:
    l4: {kind: gce-runners, machineType: g2-standard-8, zones: [us-central1-a], max: 2}
"""


@pytest.fixture(scope="module")
def pem() -> str:
    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


@dataclass
class SecretManager:
    """A fake of Secret Manager, over the connection of Google's own client."""

    versions: dict[str, list[bytes]] = field(default_factory=dict)
    refusal: int = 0

    def request(self, uri: str, method: str = "GET", body: Any = None, **_: Any) -> tuple[httplib2.Response, bytes]:
        url, given = urlsplit(uri), json.loads(body) if body else {}
        if method == "GET" and not self.refusal:
            name = url.path.removeprefix("/v1/").removesuffix("/versions/latest:access")
            if not self.versions.get(name):
                return httplib2.Response({"status": "404"}), b'{"error": {"message": "not found"}}'
            payload = {"data": base64.b64encode(self.versions[name][-1]).decode()}
            return httplib2.Response({"status": "200"}), json.dumps({"payload": payload}).encode()
        assert (url.netloc, method) == ("secretmanager.googleapis.com", "POST")
        if self.refusal:
            return httplib2.Response({"status": str(self.refusal)}), b'{"error": {"message": "Permission denied"}}'
        if url.path == "/v1/projects/acme-ci/secrets":
            compare(given, "secretmanager", "Secret")
            name = f"projects/acme-ci/secrets/{parse_qs(url.query)['secretId'][0]}"
            if name in self.versions:
                return httplib2.Response({"status": "409"}), b'{"error": {"message": "already exists"}}'
            self.versions[name] = []
            return httplib2.Response({"status": "200"}), json.dumps({"name": name}).encode()
        name = url.path.removeprefix("/v1/").removesuffix(":addVersion")
        compare(given, "secretmanager", "AddSecretVersionRequest")
        self.versions[name].append(base64.b64decode(given["payload"]["data"]))
        answer = {"name": f"{name}/versions/{len(self.versions[name])}", "state": "ENABLED"}
        return httplib2.Response({"status": "200"}), json.dumps(answer).encode()

    def close(self) -> None:
        pass


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> SecretManager:
    fake = SecretManager()
    monkeypatch.setattr(google_api, "connect", lambda: google_api.calls_over(fake))
    return fake


@dataclass
class GitHub:
    """A fake of GitHub's API that knows the codes it gave."""

    pem: str
    codes: dict[str, int] = field(default_factory=dict)
    owner: str = "acme"
    address: str = ""
    apps: set[int] = field(default_factory=set)
    installations: dict[int, int] = field(default_factory=dict)
    """Installations in acme, by App."""

    def answer(self, path: str, _: bytes, authorization: str) -> tuple[int, Any]:
        if path in ("/api/v3/app", "/api/v3/orgs/acme/installation"):
            claims = jwt.decode(authorization.removeprefix("Bearer "), self.pem_public, algorithms=["RS256"])
            app = int(claims["iss"])
            if path == "/api/v3/app":
                answer = {"id": app, "slug": f"app-{app}", "owner": {"login": self.owner}}
                return (200, answer) if app in self.apps else (401, {"message": "Integration not found"})
            found = self.installations.get(app)
            return (200, {"id": found}) if found else (404, {"message": "Not Found"})
        code = path.removeprefix("/api/v3/app-manifests/").removesuffix("/conversions")
        if number := self.codes.pop(code, 0):  # a code is used once
            self.apps.add(number)
            return 201, {"id": number, "slug": f"app-{number}", "owner": {"login": self.owner}, "pem": self.pem}
        return 404, {"message": "Not Found"}

    @property
    def pem_public(self) -> Any:
        return serialization.load_pem_private_key(self.pem.encode(), None).public_key()


@pytest.fixture
def github(pem: str) -> Iterator[GitHub]:
    fake = GitHub(pem)
    with json_server(fake.answer) as fake.address:
        yield fake


@dataclass
class Browser:
    """What a person does on the page: opens it, presses the buttons, and is sent back by GitHub."""

    address: str
    page: str = ""
    """The path of the page."""
    served: threading.Event = field(default_factory=threading.Event)

    def get(self, path: str, host: str = "") -> tuple[int, str]:
        headers = {"Host": host} if host else {}
        request = urllib.request.Request(f"{self.address}{path}", headers=headers)  # noqa: S310 - a local address
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def forms(self) -> list[tuple[str, dict[str, Any]]]:
        """The address and the manifest of each button."""
        assert self.served.wait(10)
        page = self.get(self.page)[1]
        found = re.findall(r'<form action="([^"]*)".*?name="manifest" value="([^"]*)"', page, re.DOTALL)
        return [(html.unescape(action), json.loads(html.unescape(manifest))) for action, manifest in found]


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(STACK)
    return path


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """The browser of a listener on a free port, which the command starts later."""
    found = Browser("")
    ready = listener.server(0)
    found.address = f"http://127.0.0.1:{ready.server_port}"
    monkeypatch.setattr(listener, "server", lambda _: ready)
    left, ended = threading.Event(), threading.Event()
    complete = listener.Flow.is_complete.fget  # type: ignore[attr-defined]

    def serve(listening: HTTPServer, flow: listener.Flow) -> None:
        found.page = flow.path
        found.served.set()
        real_serve(listening, flow)
        ended.set()

    real_serve = listener.serve
    monkeypatch.setattr(listener, "serve", serve)
    monkeypatch.setattr(listener.Flow, "is_complete", property(lambda self: left.is_set() or complete(self)))
    yield found
    left.set()
    assert ended.wait(10), "the listener ends"
    ready.server_close()


def create(ask: Ask, github: GitHub, *options: str) -> tuple[threading.Thread, list[Any]]:
    """Start the command in a thread. Its answer is in the list when the thread has ended."""
    answers: list[Any] = []
    words = ("github-app", "create", "Pulumi.dev.yaml", "--github-url", github.address, *options)
    thread = threading.Thread(target=lambda: answers.append(ask(*words)), daemon=True)
    thread.start()
    return thread, answers


def test_two_apps_are_created_installed_and_written_into_the_stack_file(
    ask: Ask, stack: Path, github: GitHub, manager: SecretManager, browser: Browser, pem: str
) -> None:
    thread, answers = create(ask, github)
    for number, (action, manifest) in enumerate(browser.forms(), 71):
        assert action.startswith(f"{github.address}/organizations/acme/settings/apps/new?state=")
        github.codes[f"code{number}"] = number
        state = parse_qs(urlsplit(action).query)["state"][0]
        back = urlsplit(manifest["redirect_url"]).path
        assert browser.get(f"{back}?code=code{number}&state={state}")[0] == 200
        assert f"{github.address}/apps/app-{number}/installations/new" in browser.get(browser.page)[1]
        assert f"id: {number}, installationId: 1" in stack.read_text()
        github.installations[number] = 900 + number
        browser.get(f"{urlsplit(manifest['setup_url']).path}?installation_id=5&setup_action=install")
    thread.join(20)
    [answer] = answers
    assert (answer.code, answer.out) == (0, "Pulumi.dev.yaml: has the numbers of 2 Apps\n")
    assert stack.read_text() == (
        STACK.replace("{id: 1, installationId: 11", "{id: 71, installationId: 971").replace(
            "{id: 3, installationId: 13", "{id: 72, installationId: 972"
        )
    )
    assert manager.versions == {
        "projects/acme-ci/secrets/admin-key": [pem.encode()],
        "projects/acme-ci/secrets/manager-key": [pem.encode()],
    }
    assert "PRIVATE KEY" not in answer.out + answer.err + stack.read_text()


def test_the_manifests_have_the_permissions_of_each_duty_and_no_webhook(
    ask: Ask, stack: Path, github: GitHub, manager: SecretManager, browser: Browser
) -> None:
    create(ask, github)
    (_, admin), (_, managing) = browser.forms()
    assert admin["default_permissions"] == {"metadata": "read", "organization_self_hosted_runners": "write"}
    assert managing["default_permissions"] == {
        "metadata": "read",
        "organization_self_hosted_runners": "write",
        "actions": "write",
    }
    assert [each["hook_attributes"]["active"] for each in (admin, managing)] == [False, False]
    assert [each["public"] for each in (admin, managing)] == [False, False]
    assert [each["name"] for each in (admin, managing)] == ["gpu-ci app dev acme", "gpu-ci managerApp dev acme"]


def test_the_names_of_apps_differ_by_app_and_stack_however_long_the_organization_is() -> None:
    def name(key: str, stack: str) -> str:
        registration = listener.Registration(App(key, "", "", {}))
        flow = listener.Flow("o" * 39, stack, "", "", [registration], *[lambda *_: None] * 5)  # type: ignore[arg-type]
        return str(json.loads(flow._shown(registration)["manifest"])["name"])

    names = {name(key, stack) for key in DUTIES for stack in ("dev", "prod")}
    assert (len(names), max(map(len, names))) == (6, 34)


def test_an_interrupted_command_keeps_the_apps_that_it_created(
    ask: Ask, stack: Path, github: GitHub, manager: SecretManager, browser: Browser, pem: str
) -> None:
    stack.write_text(STACK.replace("{id: 1,", "{id: 71,").replace("{id: 3,", "{id: 72,"))
    manager.versions = {f"projects/acme-ci/secrets/{name}-key": [pem.encode()] for name in ("admin", "manager")}
    github.apps, github.installations = {71, 72}, {72: 972}
    thread, answers = create(ask, github)
    assert browser.forms() == []
    assert "installationId: 972" in stack.read_text()
    github.installations[71] = 971
    # The App sends the browser to the page of the first run.
    assert browser.get("/page-of-the-first-run/?installation_id=5")[0] == 404
    thread.join(20)
    assert (answers[0].code, "installationId: 971" in stack.read_text()) == (0, True)
    assert [len(each) for each in manager.versions.values()] == [1, 1]


def test_the_key_of_another_app_is_not_replaced(
    ask: Ask, stack: Path, github: GitHub, manager: SecretManager, monkeypatch: pytest.MonkeyPatch, pem: str
) -> None:
    stack.write_text(STACK.replace("{id: 3,", "{id: 72,"))
    manager.versions = {f"projects/acme-ci/secrets/{name}-key": [pem.encode()] for name in ("admin", "manager")}
    github.apps = {72}
    monkeypatch.setattr(listener, "serve", lambda *_: pytest.fail("the page is open"))
    answer = ask("github-app", "create", "Pulumi.dev.yaml", "--github-url", github.address, "--json")
    [problem] = answer.json["error"]["problems"]
    assert (answer.code, problem["got"]) == (
        2, "projects/acme-ci/secrets/admin-key has a key, but not that of app, App 1"
    )  # fmt: skip
    assert manager.versions["projects/acme-ci/secrets/admin-key"] == [pem.encode()]


def test_wrong_requests_are_refused_and_store_nothing(
    ask: Ask, stack: Path, github: GitHub, manager: SecretManager, browser: Browser
) -> None:
    create(ask, github, "--only", "app")
    [(action, _)] = browser.forms()
    state = parse_qs(urlsplit(action).query)["state"][0]
    github.codes["good"] = 71
    created = f"{browser.page}created"
    refused = {
        f"{created}/app?code=good&state=other": "another state",
        f"{created}/app?code=good": "another state",
        f"{created}/app?code=bad&state={state}": "GitHub did not create the App from its code",
        f"{created}/app?code=..%2F..%2Fuser&state={state}": "GitHub did not create the App from its code",
        f"{created}/managerApp?code=good&state=x": "no such page",
        f"/created/app?code=good&state={state}": "no such page",
        "/installed/app?installation_id=5": "no such page",
        "/": "no such page",
    }
    for path, problem in refused.items():
        status, text = browser.get(path)
        assert (status in (400, 404), problem in text) == (True, True), (path, text)
    assert browser.get(browser.page, host="evil.example")[0] == 403
    assert manager.versions == {}
    assert stack.read_text() == STACK
    github.owner = "somebody"
    assert "for somebody, not for acme" in browser.get(f"{created}/app?code=good&state={state}")[1]
    assert manager.versions == {}


def test_a_refusal_of_secret_manager_is_shown_and_another_try_is_possible(
    ask: Ask, stack: Path, github: GitHub, manager: SecretManager, browser: Browser
) -> None:
    create(ask, github, "--only", "app")
    assert browser.served.wait(10)
    manager.refusal = 403
    for code in ("first", "second"):
        [(action, _)] = browser.forms()
        github.codes[code] = 71
        state = parse_qs(urlsplit(action).query)["state"][0]
        text = browser.get(f"{browser.page}created/app?code={code}&state={state}")[1]
        if code == "first":
            assert "the key could not be stored" in text
            assert "PRIVATE KEY" not in text
        manager.refusal = 0
    assert len(manager.versions["projects/acme-ci/secrets/admin-key"]) == 1


class Stdin:
    """Standard input with these bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.buffer = self

    def isatty(self) -> bool:
        return False

    def read(self) -> bytes:
        return self.data


def test_a_key_from_standard_input_becomes_a_new_version(
    ask: Ask, manager: SecretManager, monkeypatch: pytest.MonkeyPatch, pem: str
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(pem.encode()))
    for number in (1, 2):
        answer = ask("github-app", "store", "projects/acme-ci/secrets/k", "--json")
        assert (answer.code, answer.json) == (0, {"version": f"projects/acme-ci/secrets/k/versions/{number}"})
    assert manager.versions == {"projects/acme-ci/secrets/k": [pem.encode()] * 2}


@pytest.mark.parametrize(
    "data", [b"", b"-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0\n", b"\xff" * 70_000, b"secret-text"]
)
def test_what_is_not_a_key_is_refused_and_not_shown(
    ask: Ask, manager: SecretManager, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(data))
    answer = ask("github-app", "store", "projects/acme-ci/secrets/k")
    assert (answer.code, answer.out, manager.versions) == (2, "", {})
    assert answer.err.startswith("the input is not an RSA private key in PEM form\n")
    assert "secret-text" not in answer.err
    assert "c2VjcmV0" not in answer.err


def test_a_key_is_stored_in_aws_secrets_manager(ask: Ask, monkeypatch: pytest.MonkeyPatch, pem: str) -> None:
    account = Account()
    monkeypatch.setattr(eks_api, "AwsClient", connect(lambda: account))
    for secret in (f"{SECRETS}gpu/k", f"{SECRETS}gpu/k", SECRETS.replace("111122223333", "999999999999") + "k"):
        monkeypatch.setattr("sys.stdin", Stdin(pem.encode()))
        answer = ask("github-app", "store", secret)
        assert pem.splitlines()[1] not in answer.out + answer.err
    assert (answer.code, "999999999999" in answer.err) == (2, True)
    assert account.secrets == {f"{SECRETS}gpu/k": pem}
    assert [call for call in account.ran if "secretsmanager" in call] == [
        "aws secretsmanager put_secret_value",
        "aws secretsmanager create_secret",
        "aws secretsmanager put_secret_value",
    ]


def test_without_aws_credentials_no_page_is_opened(
    ask: Ask, stack: Path, monkeypatch: pytest.MonkeyPatch, manager: SecretManager
) -> None:
    stack.write_text(STACK.replace("projects/acme-ci/secrets/admin-key", f"{SECRETS}admin-key"))
    account = Account(error=eks_api.ApiError("", "Unable to locate credentials"))
    monkeypatch.setattr(eks_api, "AwsClient", connect(lambda: account))
    monkeypatch.setattr(listener, "server", lambda _: pytest.fail("the page is open"))
    answer = ask("github-app", "create", "Pulumi.dev.yaml", "--json")
    [problem] = answer.json["error"]["problems"]
    assert (answer.code, account.ran) == (2, ["aws sts get_caller_identity"])
    assert f"no AWS credentials for {SECRETS}admin-key" in answer.out
    assert "secretsmanager:PutSecretValue" in problem["expected"]


@pytest.mark.parametrize(
    "name",
    [
        "k",
        "arn:aws:iam::111122223333:role/x",
        "projects/p",
        "projects/p/secrets/",
        "projects/p/secrets/a/versions/1",
        "../x",
    ],
)
def test_a_name_that_is_not_a_secret_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="the secret's name has another form"):
        secret_store.check_name(name)


def test_without_credentials_the_command_names_the_missing_step(
    ask: Ask, stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> google_api.Call:
        raise NotAskedError("no default credentials", google_api._LOGIN)

    monkeypatch.setattr(google_api, "connect", refuse)
    answer = ask("github-app", "create", "Pulumi.dev.yaml", "--json")
    [problem] = answer.json["error"]["problems"]
    assert (answer.code, problem["hint"]) == (2, "gcloud auth application-default login")
