"""`gpu-ci doctor`: an environment in which everything is ready, and each thing that may be broken in it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gpu_ci.cli.stack_files import read
from gpu_ci.cli.verify import deployer, eks, gke, google, programs
from gpu_ci.cli.verify.checklist import NotAskedError
from gpu_ci.cli.verify.programs import Output
from gpu_ci.gcp.container_image_pipeline import ContainerImagePipeline
from gpu_common import google_permissions

from tests.conftest import ROOT
from tests.engine import gke as gke_stack
from tests.gpu_ci.cli.conftest import Answer, Ask
from tests.gpu_ci.cli.verify.google_apis import CLUSTER, SECRETS, Google
from tests.gpu_ci.cli.verify.programs import Account
from tests.gpu_ci.program.test_program import run as run_program

STACK = """\
config:
  gcp:project: acme-ci
  gpu-ci:site:
    subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}
    github:
      owner: acme
      app: {id: 101, installationId: 1011, privateKey: projects/acme-ci/secrets/key}
      managerApp: {id: 103, installationId: 1013, privateKey: projects/acme-ci/secrets/manager-key}
  gpu-ci:github: {runnerGroup: {repositories: [kernels]}}
  gpu-ci:pools:
    l4: {kind: gce-runners, machineType: g2-standard-8, zones: [us-central1-a, us-central1-b], market: spot, max: 4}
secretsprovider: gcpkms://projects/acme-ci/locations/us-central1/keyRings/pulumi/cryptoKeys/pulumi-secrets
"""
EKS = """\
  gpu-ci:clusters:
    ci: {region: us-east-1, subnets: {us-east-1a: subnet-0123456789abcdef0, us-east-1b: subnet-0123456789abcdef1}}
"""
GOOGLE = [
    "project", "apis", "permissions", "service agent", "policies", "machines", "quotas", "images", "networks",
    "secrets", "leftovers",
]  # fmt: skip
STEPS = [
    *(f"google/{name}" for name in GOOGLE),
    "github/app", "github/managerApp", "github/runner version", "state/backend", "state/secrets provider",
]  # fmt: skip
# The passphrase of this salt is "sandbox"; every stack file of this repository has it.
SALT = "v1:rdHK0bDVB20=:v1:gdTHUdW6eJ3QWI3M:JFlRIlEH/xYCzIC9jgN12XBnZxkIIw=="
# Made by Pulumi's algorithm with the passphrase "another".
OTHER_SALT = "v1:AQIDBAUGBwg=:v1:AAECAwQFBgcICQoL:56uljWePUFuyGfap8Ga19sBhu9e9yg=="
BUCKET = "gs://acme-ci-pulumi-state"
PLANTED = "hush-hush-planted-value"


def new_key() -> tuple[bytes, Any]:
    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()), key.public_key()


KEYS = {"key": new_key(), "manager-key": new_key()}


@dataclass
class Github:
    """A GitHub with both Apps installed, until a test changes it."""

    url: str = ""
    apps: dict[int, dict[str, Any]] = field(
        default_factory=lambda: {
            101: {"id": 101, "slug": "ci-admin", "owner": {"login": "acme"}, "note": PLANTED,
                  "permissions": {"metadata": "read", "organization_self_hosted_runners": "write"}},
            103: {"id": 103, "slug": "ci-manager", "owner": {"login": "Acme"},
                  "permissions": {"organization_self_hosted_runners": "write", "actions": "write"}},
        }
    )  # fmt: skip
    installations: dict[int, dict[str, Any]] = field(
        default_factory=lambda: {
            1011: {"app_id": 101, "account": {"login": "acme"}, "suspended_at": None,
                   "permissions": {"organization_self_hosted_runners": "write"}},
            1013: {"app_id": 103, "account": {"login": "acme"}, "suspended_at": None,
                   "permissions": {"organization_self_hosted_runners": "write", "actions": "write"}},
        }
    )  # fmt: skip
    release: dict[str, Any] = field(
        default_factory=lambda: {"tag_name": "v2.338.0", "published_at": "2026-11-18T10:00:00Z"}
    )
    status: int = 0
    """The status of every answer, if it is not 0."""
    text: str = ""
    """The text of every answer, if it is not empty."""
    asked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def answer(self, path: str, authorization: str) -> tuple[int, Any]:
        self.asked.append(path)
        if self.status or self.text:
            return self.status or 200, {"message": f"denied {authorization} {PLANTED}"}
        if path == "/repos/actions/runner/releases/latest":
            return 200, self.release
        token = authorization.removeprefix("Bearer ")
        self.tokens.append(token)
        claimed = int(jwt.decode(token, options={"verify_signature": False})["iss"])
        if claimed not in self.apps:
            return 404, {"message": f"Integration not found {PLANTED}"}
        try:
            jwt.decode(token, KEYS["key" if claimed == 101 else "manager-key"][1], algorithms=["RS256"])
        except jwt.InvalidSignatureError:
            return 401, {"message": f"A JSON web token could not be decoded {token}"}
        if path == "/app":
            return 200, self.apps[claimed]
        found = self.installations.get(int(path.removeprefix("/app/installations/")))
        return (200, found) if found and found["app_id"] == claimed else (404, {"message": "Not Found"})


@pytest.fixture
def github() -> Iterator[Github]:
    fake = Github()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = fake.answer(self.path, self.headers.get("authorization", ""))
            body = (fake.text or json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Environment:
    """Everything that doctor asks, in order until a test changes it."""

    ask: Ask
    folder: Path
    github: Github
    cloud: Google = field(
        default_factory=lambda: Google(
            secrets={**SECRETS}, keys={name: pem for name, (pem, _) in KEYS.items()},
            apis=set(google.APIS) | {"orgpolicy.googleapis.com", "storage.googleapis.com", "cloudkms.googleapis.com"},
        )
    )  # fmt: skip
    account: Account = field(default_factory=Account)
    text: str = STACK
    project: str = "name: pools\nruntime: python\n"
    login: str = BUCKET
    """The backend that `pulumi whoami` names; without one, nobody is logged in."""
    has_credentials: bool = True
    ran: list[str] = field(default_factory=list)

    def connect(self) -> google.Call:
        if not self.has_credentials:
            raise NotAskedError("Your default credentials were not found", google._LOGIN)
        return google.calls_over(self.cloud)

    def run(self, command: Sequence[str], *words: Any, **options: Any) -> Output:
        self.ran.append(" ".join(command))
        if command[0] != "pulumi":
            return self.account.run(command, *words, **options)
        if not self.login:
            return Output(
                255, "", "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions"
            )
        return Output(0, json.dumps({"user": "ada", "url": self.login}), "")

    def replace(self, old: str, new: str) -> None:
        assert old in self.text
        self.text = self.text.replace(old, new)

    def doctor(self, *words: str) -> Answer:
        (self.folder / "Pulumi.dev.yaml").write_text(self.text)
        (self.folder / "Pulumi.yaml").write_text(self.project)
        return self.ask("doctor", "Pulumi.dev.yaml", "--github-url", self.github.url, *words)


@pytest.fixture
def environment(ask: Ask, tmp_path: Path, github: Github, monkeypatch: pytest.MonkeyPatch) -> Environment:
    found = Environment(ask, tmp_path, github)
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    monkeypatch.delenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", raising=False)
    monkeypatch.setattr(google, "connect", found.connect)
    monkeypatch.setattr(programs, "run", found.run)
    monkeypatch.setattr(eks, "run", found.run)
    return found


def statuses(answer: Answer) -> dict[str, str]:
    return {step["name"]: step["status"] for step in answer.json["steps"]}


def fixes(answer: Answer, name: str) -> list[str]:
    [found] = [step["fix"] for step in answer.json["steps"] if step["name"] == name]
    return list(found)


def test_every_step_passes_where_all_is_ready(environment: Environment) -> None:
    answer = environment.doctor("--json")
    assert statuses(answer) == dict.fromkeys(STEPS, "pass")
    assert (answer.code, answer.json["works"], answer.json["file"]) == (0, True, "Pulumi.dev.yaml")
    assert answer.err.splitlines() == [f"{name} ..." for name in STEPS]
    assert environment.github.asked == [
        "/app", "/app/installations/1011", "/app", "/app/installations/1013", "/repos/actions/runner/releases/latest",
    ]  # fmt: skip


def test_nothing_is_changed(environment: Environment) -> None:
    environment.doctor()
    posts = {asked for asked in environment.cloud.asked if not asked.startswith("GET ")}
    assert {each.rpartition(":")[2] for each in posts} == {"testIamPermissions", "getIamPolicy"}
    assert environment.ran == ["pulumi whoami --json --non-interactive"]
    assert {each.name for each in environment.folder.iterdir()} == {"Pulumi.dev.yaml", "Pulumi.yaml"}


Break = Callable[[Environment], object]


def change(target: str, **values: Any) -> Break:
    """Return a break that sets attributes of the cloud, of GitHub or of the environment."""

    def apply(environment: Environment) -> None:
        where = environment if target == "environment" else getattr(environment, target)
        for name, value in values.items():
            setattr(where, name, value)

    return apply


def text(old: str, new: str) -> Break:
    return lambda environment: environment.replace(old, new)


def app(number: int, **values: Any) -> Break:
    return lambda environment: environment.github.apps[number].update(values)


def installation(number: int, **values: Any) -> Break:
    return lambda environment: environment.github.installations[number].update(values)


RUNNERS = "organization_self_hosted_runners"
POLICY = "compute.disableGuestAttributesAccess"
LOCATIONS = [{"values": {"allowedValues": ["in:europe-locations"]}}]
NOT_DISABLED = set(google.APIS) | {"orgpolicy.googleapis.com", "storage.googleapis.com", "cloudkms.googleapis.com"}
BROKEN: list[tuple[str, Break, str, str, list[str]]] = [
    ("an API is disabled", change("cloud", apis=NOT_DISABLED - {"iam.googleapis.com"}), "google/apis", "fail",
     ["gcloud services enable iam.googleapis.com --project acme-ci"]),
    ("the API of the key is disabled", change("cloud", apis=NOT_DISABLED - {"cloudkms.googleapis.com"}),
     "google/apis", "fail", ["gcloud services enable cloudkms.googleapis.com --project acme-ci"]),
    ("a permission is missing",
     change("cloud", permissions=set(google_permissions.deployer()) - {"compute.instances.create"}),
     "google/permissions", "fail",
     [('gcloud projects add-iam-policy-binding acme-ci --member "user:$(gcloud config get-value account)" --role '
      "projects/acme-ci/roles/gpu_ci_deploy --condition None  # docs/start/bootstrap.md creates the role"),
      ("gcloud iam roles update gpu_ci_deploy --project acme-ci --add-permissions compute.instances.create"
      "  # if the deployer has the role already")]),
    ("the service agent has no role", change("cloud", agent_roles=()), "google/service agent", "unknown",
     [f"gcloud projects add-iam-policy-binding acme-ci --member serviceAccount:1@cloudservices.gserviceaccount.com "
      f"--role {role} --condition None" for role in (google.AGENT_MACHINES, google.AGENT_ACCOUNTS)]),
    ("a policy is enforced", change("cloud", policies={POLICY: [{"enforce": True}]}), "google/policies", "fail",
     [f"gcloud resource-manager org-policies disable-enforce {POLICY} --project acme-ci"]),
    ("a policy refuses the zones", change("cloud", policies={"gcp.resourceLocations": LOCATIONS}),
     "google/policies", "fail",
     ["gcloud resource-manager org-policies allow gcp.resourceLocations in:us-central1-locations --project acme-ci"]),
    ("a zone has no such machine", change("cloud", machine_types={"us-central1-a/g2-standard-8"}),
     "google/machines", "fail",
     ["gcloud compute machine-types list --filter name=g2-standard-8 --project acme-ci  # the zones for `zones`"]),
    ("a quota is too small",
     change("cloud", quotas={"PREEMPTIBLE_NVIDIA_L4_GPUS": 4, "SSD_TOTAL_GB": 500, "GPUS_ALL_REGIONS": 5}),
     "google/quotas", "fail", [("# request more of PREEMPTIBLE_NVIDIA_L4_GPUS at "
                               "https://console.cloud.google.com/iam-admin/quotas?project=acme-ci")]),
    ("the image is obsolete", change("cloud", image={"status": "READY", "deprecated": {"state": "OBSOLETE"}}),
     "google/images", "fail",
     ["gcloud compute images list --no-standard-images --project ubuntu-os-accelerator-images  # for `image`"]),
    ("the subnetwork does not exist", change("cloud", has_subnetwork=False), "google/networks", "fail",
     ["gcloud compute networks subnets list --regions us-central1 --project acme-ci  # for `subnetworks`"]),
    ("no Private Google Access", change("cloud", private_access=False), "google/networks", "fail",
     [("gcloud compute networks subnets update ci --region us-central1 --project acme-ci "
      "--enable-private-ip-google-access")]),
    ("no Cloud NAT", change("cloud", nats=[]), "google/networks", "fail",
     ["gcloud compute routers create ci-us-central1 --network ci --region us-central1 --project acme-ci",
      ("gcloud compute routers nats create nat --router ci-us-central1 --auto-allocate-nat-external-ips "
      "--nat-all-subnet-ip-ranges --region us-central1 --project acme-ci")]),
    ("a secret is disabled", change("cloud", secrets={**SECRETS, "key": "DISABLED"}), "google/secrets", "fail",
     ["gcloud secrets versions enable latest --secret key --project acme-ci"]),
    ("a secret was destroyed", change("cloud", secrets={**SECRETS, "key": "DESTROYED"}), "google/secrets", "fail",
     ["gpu-ci github-app store projects/acme-ci/secrets/key < KEY.pem"]),
    ("a machine of a check is left", change("cloud", check_vms=["l4-gate-x"]), "google/leftovers", "fail",
     ["gcloud compute instances delete l4-gate-x --zone us-central1-a --project acme-ci"]),
    ("the numbers are those of init", text("{id: 101, installationId: 1011", "{id: 1, installationId: 11"),
     "github/app", "fail", ["gpu-ci github-app create Pulumi.dev.yaml --only app"]),
    ("the secret has no version", change("cloud", keys={"key": KEYS["key"][0]}), "github/managerApp", "fail",
     ["gpu-ci github-app store projects/acme-ci/secrets/manager-key < KEY.pem",
      "gpu-ci github-app create Pulumi.dev.yaml --only managerApp"]),
    ("the secret holds no key",
     change("cloud", keys={"key": PLANTED.encode(), "manager-key": KEYS["manager-key"][0]}), "github/app", "fail",
     ["gpu-ci github-app store projects/acme-ci/secrets/key < KEY.pem"]),
    ("the key is of another App",
     change("cloud", keys=dict.fromkeys(("key", "manager-key"), KEYS["manager-key"][0])), "github/app", "fail",
     ["gpu-ci github-app store projects/acme-ci/secrets/key < KEY.pem",
      "gpu-ci github-app create Pulumi.dev.yaml --only app"]),
    ("GitHub has no such App", text("{id: 103,", "{id: 109,"), "github/managerApp", "fail",
     ["gpu-ci github-app store projects/acme-ci/secrets/manager-key < KEY.pem",
      "gpu-ci github-app create Pulumi.dev.yaml --only managerApp"]),
    ("the App belongs to another organization", app(103, owner={"login": "other"}), "github/managerApp", "fail",
     ["gpu-ci github-app create Pulumi.dev.yaml --only managerApp"]),
    ("the App lacks a permission", app(103, permissions={RUNNERS: "write"}), "github/managerApp", "fail",
     ["# grant them at {web}/organizations/acme/settings/apps/ci-manager/permissions"]),
    ("the App may only read", app(101, permissions={RUNNERS: "read"}), "github/app", "fail",
     ["# grant them at {web}/organizations/acme/settings/apps/ci-admin/permissions"]),
    ("there is no such installation", text("installationId: 1013", "installationId: 1019"), "github/managerApp",
     "fail", [("# install it at {web}/apps/ci-manager/installations/new, and write the number at the end of the "
              "address as installationId")]),
    ("the installation is of the other App", text("installationId: 1011", "installationId: 1019"), "github/app",
     "fail", [("# install it at {web}/apps/ci-admin/installations/new, and write the number at the end of the address "
              "as installationId")]),
    ("the installation is in another organization", installation(1011, account={"login": "other"}), "github/app",
     "fail", ["# install it at {web}/apps/ci-admin/installations/new"]),
    ("the installation is suspended", installation(1011, suspended_at="2026-11-01T00:00:00Z"), "github/app", "fail",
     ["# unsuspend it at {web}/organizations/acme/settings/installations/1011"]),
    ("new permissions are not accepted", installation(1013, permissions={RUNNERS: "write", "actions": "read"}),
     "github/managerApp", "fail", ["# accept them at {web}/organizations/acme/settings/installations/1013"]),
    ("the runner is too old",
     change("github", release={"tag_name": "v2.345.0", "published_at": "2026-10-01T00:00:00Z"}),
     "github/runner version", "fail",
     ["# install a newer gpu-ci: docs/operate/upgrade.md",
      ("# or write `runner: {version: 2.345.0, sha256: …}` in the pool, with the checksums of "
       "https://github.com/actions/runner/releases/tag/v2.345.0")]),
    ("the state is on this computer", change("environment", login="file://~"), "state/backend", "fail",
     [f"pulumi login {BUCKET}  # docs/start/bootstrap.md creates the bucket"]),
    ("Pulumi.yaml names a folder",
     change("environment", project="name: pools\nruntime: python\nbackend: {url: 'file:///srv/state'}\n"),
     "state/backend", "fail",
     [f"# write `backend: {{url: {BUCKET}}}` in Pulumi.yaml  # docs/start/bootstrap.md creates the bucket"]),
    ("nobody is logged in", change("environment", login=""), "state/backend", "unknown",
     [f"pulumi login {BUCKET}  # docs/start/bootstrap.md creates the bucket"]),
    ("the bucket does not exist", change("cloud", bucket=None), "state/backend", "fail",
     [f"gcloud storage buckets create {BUCKET} --project acme-ci --location us-central1 --uniform-bucket-level-access",
      f"gcloud storage buckets update {BUCKET} --versioning"]),
    ("the bucket keeps no old versions",
     change("cloud", bucket={"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}), "state/backend",
     "fail", [f"gcloud storage buckets update {BUCKET} --versioning"]),
    ("the bucket has access by object", change("cloud", bucket={"versioning": {"enabled": True}}), "state/backend",
     "fail", [f"gcloud storage buckets update {BUCKET} --uniform-bucket-level-access"]),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "step", "status", "fix"), [each[1:] for each in BROKEN], ids=[e[0] for e in BROKEN])
def test_what_is_broken_fails_its_own_step_alone_and_names_the_fix(
    environment: Environment, broken: Break, step: str, status: str, fix: list[str]
) -> None:
    broken(environment)
    answer = environment.doctor("--json")
    assert statuses(answer) == {**dict.fromkeys(STEPS, "pass"), step: status}
    assert fixes(answer, step) == [each.replace("{web}", environment.github.url) for each in fix]
    assert (answer.code, answer.json["works"]) == ((1, False) if status == "fail" else (0, True))
    printed = environment.doctor()
    assert printed.code == answer.code
    for line in fixes(answer, step):
        assert f"  fix: {line}" in printed.out.splitlines()
        assert line.split()[0] in ("#", "aws", "export", "gcloud", "gpu-ci", "pulumi")
    script = "\n".join(fixes(answer, step))
    parsed = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (parsed.returncode, parsed.stderr) == (0, ""), script


KMS = "gcpkms://projects/acme-ci/locations/us-central1/keyRings/pulumi/cryptoKeys/pulumi-secrets"


@pytest.mark.parametrize(
    ("line", "login", "status", "fix"),
    [
        (f"encryptionsalt: {SALT}", BUCKET, "fail", [
            f"sed -i.bak /^encryptionsalt:/d Pulumi.dev.yaml && pulumi stack init dev --secrets-provider {KMS}",
            f"pulumi stack change-secrets-provider --stack dev {KMS}  # for an existing stack"]),
        (f"encryptionsalt: {OTHER_SALT}", BUCKET, "pass", []),
        ("encryptionsalt: v1:AAAA", BUCKET, "pass", []),
        ("", BUCKET, "unknown", [f"pulumi stack init dev --secrets-provider {KMS}"]),
        ("", "https://api.pulumi.com", "pass", []),
        ("secretsprovider: awskms://alias/pulumi?region=us-east-1", BUCKET, "pass", []),
    ],
)  # fmt: skip
def test_the_published_passphrase_of_the_sandbox_is_refused(
    environment: Environment, line: str, login: str, status: str, fix: list[str]
) -> None:
    environment.replace(f"secretsprovider: {KMS}", line)
    environment.login = login
    answer = environment.doctor("--json", "--only", "state")
    assert statuses(answer) == {"state/backend": "pass", "state/secrets provider": status}
    assert fixes(answer, "state/secrets provider") == fix


@pytest.mark.parametrize("variable", [f"{BUCKET}", "file:///srv/state"])
def test_the_variable_wins_over_the_project_and_the_project_over_the_login(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    environment.project = "name: pools\nruntime: python\nbackend: {url: 'https://pulumi.example.org'}\n"
    environment.login = "file://~"
    answer = environment.doctor("--json", "--only", "backend")
    assert answer.json["steps"][0]["got"] == "https://pulumi.example.org (Pulumi.yaml)"
    assert environment.ran == []
    monkeypatch.setenv("PULUMI_BACKEND_URL", variable)
    answer = environment.doctor("--json", "--only", "backend")
    assert statuses(answer) == {"state/backend": "pass" if variable == BUCKET else "fail"}


@pytest.mark.parametrize("address", ["not an address", "gs://", "https://[abc", f"{PLANTED}@host"])
def test_a_backend_without_an_address_fails_and_is_not_shown(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", address)
    [step] = environment.doctor("--json", "--only", "backend").json["steps"]
    text = "PULUMI_BACKEND_URL has no address such as gs://BUCKET; the value is not shown"
    assert (step["status"], step["got"]) == ("fail", text)
    assert step["fix"] == [f"export PULUMI_BACKEND_URL={BUCKET}  # docs/start/bootstrap.md creates the bucket"]


def test_without_the_pulumi_cli_the_first_line_says_to_install_it(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> Output:
        raise programs.NotInstalledError("pulumi is not installed")

    monkeypatch.setattr(programs, "run", lambda *_, **__: run())
    assert fixes(environment.doctor("--json", "--only", "backend"), "state/backend") == [
        "# install the Pulumi CLI: https://www.pulumi.com/docs/iac/download-install/",
        f"pulumi login {BUCKET}  # docs/start/bootstrap.md creates the bucket",
    ]


def test_a_newer_runner_of_this_month_passes(environment: Environment) -> None:
    environment.github.release = {"tag_name": "v2.345.0", "published_at": "2026-11-20T10:00:00Z"}
    answer = environment.doctor("--json", "--only", "runner version")
    assert answer.json["steps"][0]["got"] == "2.345.0 was released on 2026-11-20; the older runner still gets jobs"
    assert answer.code == 0


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ({"status": 403}, "not asked: GitHub answered 403"),
        ({"status": 500}, "not asked: GitHub answered 500"),
        ({"text": f"<html>{PLANTED}"}, "not asked: {url}: the answer is no JSON"),
        ({"url": "http://127.0.0.1:1"}, "not asked: http://127.0.0.1:1 could not be reached: ConnectionRefusedError"),
    ],
)
def test_a_github_that_does_not_answer_leaves_its_steps_unknown(
    environment: Environment, values: dict[str, Any], got: str
) -> None:
    url = environment.github.url
    change("github", **values)(environment)
    answer = environment.doctor("--json", "--only", "github")
    assert set(statuses(answer).values()) == {"unknown"}
    assert {step["got"] for step in answer.json["steps"]} == {got.replace("{url}", url)}
    assert (answer.code, answer.json["works"]) == (1, False)


def test_without_credentials_the_reason_and_the_login_are_printed_once(environment: Environment) -> None:
    environment.has_credentials = False
    answer = environment.doctor()
    lines = answer.out.splitlines()
    assert lines.count("  fix: gcloud auth application-default login") == 1
    assert (
        sum("for the same reason as google/project" in line for line in lines) == len(GOOGLE) - 1 + 3
    )  # both Apps and the bucket too
    assert answer.code == 0


def test_a_key_that_the_caller_cannot_read_names_the_grant(environment: Environment) -> None:
    environment.cloud.apis = {*environment.cloud.apis} - {"secretmanager.googleapis.com"}
    answer = environment.doctor("--json", "--only", "github/app")
    assert statuses(answer) == {"github/app": "unknown"}
    assert fixes(answer, "github/app") == [
        (
            "gcloud secrets add-iam-policy-binding key --project acme-ci --member "
            '"user:$(gcloud config get-value account)" --role roles/secretmanager.secretAccessor'
        )
    ]


def test_the_member_of_a_grant_is_the_impersonated_account(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "ci@acme-ci.iam.gserviceaccount.com")
    environment.cloud.permissions = set()
    fix = fixes(environment.doctor("--json", "--only", "permissions"), "google/permissions")[0]
    assert "--member serviceAccount:ci@acme-ci.iam.gserviceaccount.com --role" in fix


def test_a_stack_on_google_needs_no_package_of_another_cloud(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(STACK)
    words = ["doctor", "Pulumi.dev.yaml", "--only", "runner version", "--github-url", "http://127.0.0.1:1"]
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pulumi_aws', 'pulumi_kubernetes', 'botocore']));"
        f"from gpu_ci.cli.main import run; sys.exit(run({words}))"
    )
    finished = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    # GitHub does not answer, so no step could be checked.
    assert (finished.returncode, finished.stderr) == (1, "github/runner version ...\n")


def everything(environment: Environment) -> str:
    """The outputs of doctor in both forms, and the commands that it ran."""
    answers = [environment.doctor(), environment.doctor("--json")]
    return "".join(each.out + each.err for each in answers) + "".join(environment.ran)


def test_no_secret_is_in_the_output_in_a_command_or_in_a_file(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = everything(environment)
    environment.github.apps[101]["permissions"] = {}
    found += everything(environment)
    environment.github.status = 401
    found += everything(environment)
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"https://ada:{PLANTED}@pulumi.example.org?token={PLANTED}")
    environment.cloud.keys["manager-key"] = f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED}\n".encode()
    found += everything(environment)
    assert len(environment.github.tokens) > 3
    lines = [line for pem, _ in KEYS.values() for line in pem.decode().splitlines() if not line.startswith("-----")]
    for secret in (PLANTED, *environment.github.tokens, *lines):
        assert secret not in found
    files = "".join(each.read_text() for each in environment.folder.iterdir())
    assert not any(secret in files for secret in (PLANTED, *lines))
    assert "https://pulumi.example.org (PULUMI_BACKEND_URL)" in found


def test_a_file_with_mistakes_is_refused_before_any_request(environment: Environment) -> None:
    environment.replace("g2-standard-8", "g2-standard-9")
    answer = environment.doctor()
    assert (answer.code, answer.out) == (1, "")
    assert "gpu-ci:pools.l4.machineType" in answer.err
    assert (environment.cloud.asked, environment.github.asked, environment.ran) == ([], [], [])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["google/apis"], ["google/apis"]),
        (["state"], ["state/backend", "state/secrets provider"]),
        (["apis", "github/app"], ["google/apis", "github/app"]),
    ],
)
def test_only_takes_a_step_a_group_or_both(environment: Environment, words: list[str], names: list[str]) -> None:
    answer = environment.doctor("--json", *(part for word in words for part in ("--only", word)))
    assert list(statuses(answer)) == names


def test_a_step_that_does_not_exist_is_refused_with_the_closest(environment: Environment) -> None:
    answer = environment.doctor("--only", "google/apsi")
    assert (answer.code, answer.out, environment.cloud.asked) == (2, "", [])
    assert "hint: did you mean google/apis?" in answer.err


RUNNER_IMAGE = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/runner@sha256:{'1' * 64}"
NODES = (
    "    a10g: {kind: eks-runners, clusterName: ci, instanceTypes: [g5.2xlarge], market: spot, max: 2, "
    f"runner: {{image: '{RUNNER_IMAGE}'}}}}\n"
)
ON_EKS = STACK.replace("    subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}\n", "")
ON_EKS = ON_EKS.replace("managerApp", "runnerApp").partition("  gpu-ci:pools:")[0] + EKS + f"  gpu-ci:pools:\n{NODES}"
EKS_STEPS = [step.name for step in eks.STEPS if step.ask]


def on_eks(environment: Environment) -> None:
    environment.text = f"{ON_EKS}secretsprovider: {KMS}\n"
    del environment.github.apps[103]["permissions"]["actions"]


def test_a_stack_on_eks_alone_asks_google_for_its_keys_only(environment: Environment) -> None:
    on_eks(environment)
    environment.cloud.apis = {
        f"{name}.googleapis.com" for name in ("cloudkms", "cloudresourcemanager", "secretmanager", "storage")
    }
    answer = environment.doctor("--json")
    names = [
        "google/project", "google/apis", "google/secrets", *(f"eks/{name}" for name in EKS_STEPS),
        "github/app", "github/runnerApp", "state/backend", "state/secrets provider",
    ]  # fmt: skip
    assert statuses(answer) == dict.fromkeys(names, "pass")
    assert not any(" compute " in asked for asked in environment.cloud.asked)


@pytest.mark.parametrize(
    ("step", "changes", "fix"),
    [
        ("cluster", {"cluster": {"name": "ci", "status": "ACTIVE", "version": "1.33",
                                 "accessConfig": {"authenticationMode": "CONFIG_MAP"}}},
         ("aws eks update-cluster-config --name ci --access-config authenticationMode=API_AND_CONFIG_MAP "
         "--region us-east-1")),
        ("network plugin", {"addon": {"addonVersion": "v1", "serviceAccountRoleArn": "arn:aws:iam::111122223333:role/c",
                                      "configurationValues": '{"init": {}}'}},
         ("aws eks update-addon --cluster-name ci --addon-name vpc-cni --region us-east-1 --configuration-values "
         """'{"init": {}, "enableNetworkPolicy": "true"}'""")),
        ("quotas", {"quotas": {"L-3819A6DF": 8, "L-DB2E81BA": 64}},
         ("aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-3819A6DF "
         "--desired-value 16 --region us-east-1")),
        ("roles", {"roles": {"AWSServiceRoleForAmazonEKSNodegroup", "AWSServiceRoleForAutoScaling"}},
         "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com --region us-east-1"),
        ("subnets", {"routes": [{"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local"}]},
         ("aws ec2 describe-route-tables --region us-east-1 --filters "
         "Name=association.subnet-id,Values=subnet-0123456789abcdef0  # then: aws ec2 create-route to a NAT gateway")),
        ("node groups", {"issues": [{"code": "AccessDenied", "message": "x", "resourceIds": []}]},
         ("aws eks describe-nodegroup --cluster-name ci --region us-east-1 --nodegroup-name a10g "
         "--query nodegroup.health")),
    ],
)  # fmt: skip
def test_what_is_broken_on_a_cluster_names_the_command(
    environment: Environment, step: str, changes: dict[str, Any], fix: str
) -> None:
    on_eks(environment)
    change("account", **changes)(environment)
    answer = environment.doctor("--json", "--only", "eks")
    assert statuses(answer) == {**{f"eks/{name}": "pass" for name in EKS_STEPS}, f"eks/{step}": "fail"}
    assert fixes(answer, f"eks/{step}")[0] == fix
    assert answer.code == 1


GKE_STEPS = [step.name for step in gke.STEPS if step.ask]
ON_GKE = ON_EKS.replace(EKS, "  gpu-ci:clusters: {gpu: {kind: gke, location: us-central1}}\n").replace(
    NODES,
    "    l4: {kind: gke-runners, clusterName: gpu, machineType: g2-standard-8, zones: [us-central1-a, us-central1-b], "
    f"market: spot, max: 4, runner: {{image: '{RUNNER_IMAGE}'}}}}\n",
)


def on_gke(environment: Environment) -> None:
    environment.text = f"{ON_GKE}secretsprovider: {KMS}\n"
    environment.account.objects["daemonsets"] = []
    environment.cloud.apis.add("container.googleapis.com")
    del environment.github.apps[103]["permissions"]["actions"]


def test_a_stack_on_gke_alone_asks_about_its_project_once(environment: Environment) -> None:
    on_gke(environment)
    answer = environment.doctor("--json")
    names = [
        "google/project", "google/apis", "google/permissions", "google/secrets",
        *(f"gke/{name}" for name in GKE_STEPS if name not in ("apis", "permissions")),
        "github/app", "github/runnerApp", "state/backend", "state/secrets provider",
    ]  # fmt: skip
    assert statuses(answer) == dict.fromkeys(names, "pass")
    environment.cloud.apis.discard("container.googleapis.com")
    answer = environment.doctor("--json", "--only", "google")
    assert fixes(answer, "google/apis") == ["gcloud services enable container.googleapis.com --project acme-ci"]


def test_a_gke_cluster_of_another_project_is_asked_about_this_project(environment: Environment) -> None:
    on_gke(environment)
    environment.replace("location: us-central1}", "location: us-central1, project: acme-clusters}")
    answer = environment.doctor("--json")
    found = statuses(answer)
    assert [name for name in found if name.startswith("gke/")] == [f"gke/{name}" for name in GKE_STEPS]
    assert "google/permissions" not in found  # the stack only reads secrets in its own project
    asked = {line.split(" ", 2)[2] for line in environment.cloud.asked if " container " in line}
    assert asked == {"/v1/projects/acme-clusters/locations/us-central1/clusters/gpu"}


@pytest.mark.parametrize(
    ("step", "cluster", "fix"),
    [
        ("cluster", None, ["gcloud container clusters list --project acme-ci  # names and locations"]),
        ("network policies", {**CLUSTER, "networkConfig": {"subnetwork": CLUSTER["networkConfig"]["subnetwork"]}},
         [("gcloud container clusters update gpu --location us-central1 --project acme-ci "
           "--update-addons NetworkPolicy=ENABLED"),
          ("gcloud container clusters update gpu --location us-central1 --project acme-ci --enable-network-policy"
           "  # creates all nodes again")]),
        ("node pools", {**CLUSTER, "nodePools": [{"name": "l4-a1", "status": "ERROR"}]},
         [("gcloud container node-pools describe --cluster gpu --location us-central1 --project acme-ci l4-a1")]),
    ],
)  # fmt: skip
def test_what_is_broken_on_a_gke_cluster_names_the_command(
    environment: Environment, step: str, cluster: dict[str, Any] | None, fix: list[str]
) -> None:
    on_gke(environment)
    environment.cloud.cluster = cluster
    answer = environment.doctor("--json", "--only", "gke")
    assert (statuses(answer)[f"gke/{step}"], fixes(answer, f"gke/{step}")) == ("fail", fix)


def test_kubectl_without_a_gke_cluster_names_the_command_that_connects_it(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gke(environment)
    monkeypatch.setattr(programs, "run", lambda *_, **__: Output(1, "", f"{NO_CLUSTER}\n"))
    answer = environment.doctor("--json", "--only", "gke")
    connect = "gcloud container clusters get-credentials gpu --location us-central1 --project acme-ci"
    assert {name: fixes(answer, f"gke/{name}") for name in ("other nodes", "device plugins", "listeners")} == {
        "other nodes": [connect],
        "device plugins": [connect],
        "listeners": [connect],
    }


NO_CREDENTIALS = 'Unable to locate credentials. You can configure credentials by running "aws login".'
NO_CLUSTER = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
CONNECT = "aws eks update-kubeconfig --name ci --region us-east-1"
OF_AWS = ("identity", "cluster", "network plugin", "quotas", "roles", "subnets", "node groups")


@pytest.mark.parametrize(
    ("profile", "aws", "kubectl", "of_aws", "of_kubectl"),
    [
        ("", NO_CREDENTIALS, NO_CLUSTER,
         "aws sso login  # or set AWS_PROFILE to a profile of the cluster's account", CONNECT),
        ("ops", "The SSO session associated with this profile has expired or is otherwise invalid.", NO_CLUSTER,
         "aws sso login --profile ops", f"{CONNECT} --profile ops"),
        ("", "An error occurred (AccessDenied) when calling the operation: not authorized", "Forbidden", None, None),
        ("", None, None, "# install the AWS CLI: docs.aws.amazon.com/cli",
         "# install kubectl: kubernetes.io/docs/tasks/tools"),
    ],
)  # fmt: skip
def test_without_access_to_a_cluster_each_step_names_the_command(
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
    profile: str,
    aws: str | None,
    kubectl: str | None,
    of_aws: str | None,
    of_kubectl: str | None,
) -> None:
    on_eks(environment)
    if profile:
        environment.text = environment.text.replace("region: us-east-1", f"profile: {profile}, region: us-east-1")

    def failing(command: list[str], **_: Any) -> programs.Output:
        error = {"aws": aws, "kubectl": kubectl}[command[0]]
        if error is None:
            raise programs.NotInstalledError(f"{command[0]} is not installed")
        return programs.Output(255, "", f"\n{error}\n")

    monkeypatch.setattr(programs, "run", failing)
    monkeypatch.setattr(eks, "run", failing)
    answer = environment.doctor("--json", "--only", "eks")
    assert statuses(answer) == {f"eks/{name}": "unknown" for name in EKS_STEPS}
    by_step = {name: of_aws if name in OF_AWS else of_kubectl for name in EKS_STEPS}
    assert {name: fixes(answer, f"eks/{name}") for name in EKS_STEPS} == {
        name: [fix] if fix else [] for name, fix in by_step.items()
    }


def test_a_context_of_kubectl_is_for_the_cluster_that_it_names(environment: Environment) -> None:
    on_eks(environment)
    environment.doctor("--only", "eks", "--context", "ci=admin")
    used = {command.partition(" get ")[0] for command in environment.ran if command.startswith("kubectl")}
    assert used == {"kubectl --context admin"}
    answer = environment.doctor("--context", "prod=admin")
    assert (answer.code, answer.out) == (2, "")
    assert "gpu-ci doctor: --context names no cluster: prod" in answer.err


def stack_config(name: str) -> dict[str, Any]:
    return read(ROOT / name).config


ONLY_BUILDS = {
    "gcp:project": "example-ci",
    "gpu-ci:site": {},
    "gpu-ci:pools": {"builds": {"kind": "cloud-build", "region": "us-central1", "machineType": "e2-standard-2"}},
}
ONLY_GKE = gke_stack.config(with_eks=False)
IMAGES_ON_GKE = gke_stack.config(with_eks=False)
IMAGES_ON_GKE["gpu-ci:pools"]["l4"]["imageRepositories"] = ["projects/acme-ci/locations/us-central1/repositories/ci"]
WITH_IMAGES = {**ONLY_BUILDS, "gpu-ci:images": {"runner": {"kind": "container", **ContainerImagePipeline.EXAMPLE}}}
SIGNED = {"kmsKeyVersion": "projects/example-ci/locations/us-central1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"}
WITH_OPTIONS = {
    **ONLY_BUILDS,
    "gpu-ci:images": {
        "runner": {"kind": "container", **ContainerImagePipeline.EXAMPLE, "sign": SIGNED, "schedule": "0 4 * * 1"}
    },
}
MANAGED = {
    **stack_config("Pulumi.staging.yaml"),
    "gpu-ci:manager": {"region": "us-central1", "image": f"ghcr.io/acme/manager@sha256:{'1' * 64}", "metrics": True},
}


@pytest.mark.parametrize(
    "config",
    [
        stack_config("Pulumi.staging.yaml"),
        stack_config("Pulumi.prod.yaml"),
        ONLY_BUILDS,
        ONLY_GKE,
        IMAGES_ON_GKE,
        WITH_IMAGES,
        WITH_OPTIONS,
        MANAGED,
    ],
    ids=[
        "staging",
        "prod",
        "builds alone",
        "nodes on GKE",
        "images of nodes on GKE",
        "image pipeline",
        "signed and scheduled images",
        "manager on Cloud Run",
    ],
)
def test_the_permissions_are_those_of_the_types_that_the_program_creates(
    config: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(json.dumps({"config": config}))
    created = {row.type for row in run_program(config).rows if row.type.startswith("gcp:")}
    assert deployer.types(read(file)) == created
    in_project = created - google_permissions.GRANTED_ON_KEYS
    needed = {permission for token in in_project for permission in google_permissions.of_type(token)}
    assert needed <= set(deployer.permissions(read(file))) <= set(google_permissions.deployer())


@pytest.mark.parametrize(
    ("option", "apis"),
    [
        ({}, set()),
        ({"schedule": "0 4 * * 1"}, {"cloudscheduler.googleapis.com", "pubsub.googleapis.com"}),
        ({"sign": SIGNED}, {"cloudkms.googleapis.com"}),
    ],
)
def test_a_field_of_an_image_pipeline_adds_the_apis_that_it_needs(
    option: dict[str, Any], apis: set[str], tmp_path: Path
) -> None:
    pipeline = {"kind": "container", **ContainerImagePipeline.EXAMPLE, **option}
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(json.dumps({"config": {"gcp:project": "example-ci", "gpu-ci:images": {"runner": pipeline}}}))
    target = google.target(read(file), lambda: pytest.fail("asks nothing"))
    assert set(target.apis) - set(google.APIS) - set(google.BUILD_APIS) == apis
