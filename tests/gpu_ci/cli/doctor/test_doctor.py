"""`gpu-ci doctor`: an environment in which everything is ready, and each thing that may be broken in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli import google_api
from gpu_ci.cli.doctor import deployer, google
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.cli.stack_files import read
from gpu_ci.gcp.container_image_pipeline import ContainerImagePipeline
from gpu_common import google_permissions

from bootstrap import google as bootstrap
from tests.bootstrap.stacks import WIDE, staging_with
from tests.conftest import ROOT
from tests.engine import gke as gke_stack
from tests.gpu_ci.aws.ec2.test_manager_entry import POOL as ON_EC2
from tests.gpu_ci.aws.ec2.test_manager_entry import stack as ec2_stack
from tests.gpu_ci.cli.doctor.conftest import BUCKET, KEYS, KMS, PLANTED, STACK, Environment, fixes, statuses
from tests.gpu_ci.cli.doctor.google_apis import APIS, SECRETS
from tests.gpu_ci.program.test_program import run as run_program

GOOGLE = [
    "project", "quota project", "apis", "permissions", "service agent", "policies", "machines", "quotas", "images",
    "networks", "secrets", "leftovers",
]  # fmt: skip
STEPS = [
    *(f"google/{name}" for name in GOOGLE),
    "github/app", "github/managerApp", "github/runner version", "state/backend", "state/secrets provider",
]  # fmt: skip
# The passphrase of this salt is "sandbox"; every stack file of this repository has it.
SALT = "v1:rdHK0bDVB20=:v1:gdTHUdW6eJ3QWI3M:JFlRIlEH/xYCzIC9jgN12XBnZxkIIw=="
# Made by Pulumi's algorithm with the passphrase "another".
OTHER_SALT = "v1:AQIDBAUGBwg=:v1:AAECAwQFBgcICQoL:56uljWePUFuyGfap8Ga19sBhu9e9yg=="


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
BROKEN: list[tuple[str, Break, str, str, list[str]]] = [
    ("an API is disabled", change("cloud", apis=APIS - {"iam.googleapis.com"}), "google/apis", "fail",
     ["gcloud services enable iam.googleapis.com --project acme-ci"]),
    ("the user's credentials have no quota project", change("environment", quota_project=""), "google/quota project",
     "fail", ["gcloud auth application-default set-quota-project acme-ci"]),
    ("the quota project is another one", change("environment", quota_project="acme-ci-prod"), "google/quota project",
     "unknown", ["gcloud auth application-default set-quota-project acme-ci"]),
    ("a permission is missing",
     change("cloud", permissions=set(WIDE) - {"compute.instances.create"}),
     "google/permissions", "fail",
     [('gcloud projects add-iam-policy-binding acme-ci --member "user:$(gcloud config get-value account)" --role '
      "projects/acme-ci/roles/gpu_ci_deploy --condition None  # docs/start/bootstrap.md creates the role"),
      ("gcloud iam roles update gpu_ci_deploy --project acme-ci --add-permissions compute.instances.create"
      "  # if the deployer has the role already")]),
    ("the deployer grants no roles",
     change("cloud", permissions=set(WIDE) - {"resourcemanager.projects.setIamPolicy"}), "google/permissions", "fail",
     ["pulumi --cwd bootstrap up  # grants deployers the role gpu_ci_deploy_grants"]),
    ("the service agent has no role", change("cloud", agent_roles=()), "google/service agent", "unknown",
     [f"gcloud projects add-iam-policy-binding acme-ci --member serviceAccount:1@cloudservices.gserviceaccount.com "
      f"--role {role} --condition None" for role in (google.AGENT_MACHINES, google.AGENT_ACCOUNTS)]),
    ("a policy is enforced", change("cloud", policies={POLICY: [{"enforce": True}]}), "google/policies", "fail",
     [f"gcloud resource-manager org-policies disable-enforce {POLICY} --project acme-ci"]),
    ("a policy refuses the zones", change("cloud", policies={"gcp.resourceLocations": LOCATIONS}),
     "google/policies", "fail",
     ["gcloud resource-manager org-policies allow gcp.resourceLocations in:us-central1-locations --project acme-ci"]),
    ("a policy refuses the project of the image",
     change("cloud", policies={"compute.trustedImageProjects": [{"values": {"allowedValues": ["projects/debian"]}}]}),
     "google/policies", "fail",
     [("gcloud resource-manager org-policies allow compute.trustedImageProjects projects/ubuntu-os-accelerator-images "
      "--project acme-ci")]),
    ("a policy names a group that the command does not know",
     change("cloud", policies={"gcp.resourceLocations": [{"values": {"allowedValues": ["in:eu-locations"]}}]}),
     "google/policies", "unknown", []),
    ("a policy depends on tags", change("cloud", policies={POLICY: [{"enforce": True, "condition": {"expression": "a"}},
                                                                    {"enforce": False}]}),
     "google/policies", "unknown", []),
    ("a zone has no such machine", change("cloud", machine_types={"us-central1-a/g2-standard-8"}),
     "google/machines", "fail",
     ["gcloud compute machine-types list --filter name=g2-standard-8 --project acme-ci  # the zones for `zones`"]),
    ("a quota is too small",
     change("cloud", quotas={"PREEMPTIBLE_NVIDIA_L4_GPUS": 3, "SSD_TOTAL_GB": 500, "GPUS_ALL_REGIONS": 5}),
     "google/quotas", "fail", [("# request more of PREEMPTIBLE_NVIDIA_L4_GPUS at "
                               "https://console.cloud.google.com/iam-admin/quotas?project=acme-ci")]),
    ("the image is obsolete", change("cloud", image={"status": "READY", "deprecated": {"state": "OBSOLETE"}}),
     "google/images", "fail",
     ["gcloud compute images list --no-standard-images --project ubuntu-os-accelerator-images  # for `image`"]),
    ("the disk is smaller than the image", change("cloud", image={"status": "READY", "diskSizeGb": "150"}),
     "google/images", "fail", ["# write diskGib: 150 or more in l4"]),
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
    ("a machine of a check is left", change("cloud", check_vms=["l4-gate-x"]), "google/leftovers", "fail",
     ["gcloud compute instances delete l4-gate-x --zone us-central1-a --project acme-ci"]),
    ("the numbers are those of init", text("{id: 101, installationId: 1011", "{id: 1, installationId: 11"),
     "github/app", "fail", ["gpu-ci github-app create Pulumi.dev.yaml --only app"]),
    ("the secret has no version", change("cloud", keys={"key": KEYS["key"][0]}), "github/managerApp", "fail",
     ["gpu-ci github-app store projects/acme-ci/secrets/manager-key < KEY.pem",
      "gpu-ci github-app create Pulumi.dev.yaml --only managerApp"]),
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
    ("there is no such installation", text("installationId: 1013", "installationId: 1019"), "github/managerApp",
     "fail", [("# install it at {web}/apps/ci-manager/installations/new, and write the number at the end of the "
              "address as installationId")]),
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
    ("nobody is logged in", change("environment", login=""), "state/backend", "unknown",
     [f"pulumi login {BUCKET}  # docs/start/bootstrap.md creates the bucket"]),
    ("the bucket does not exist", change("cloud", bucket=None), "state/backend", "fail",
     [f"gcloud storage buckets create {BUCKET} --project acme-ci --location us-central1 --uniform-bucket-level-access",
      f"gcloud storage buckets update {BUCKET} --versioning"]),
    ("the bucket keeps no old versions",
     change("cloud", bucket={"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}), "state/backend",
     "fail", [f"gcloud storage buckets update {BUCKET} --versioning"]),
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
    assert {line.split()[0] for line in fix} <= {"#", "aws", "export", "gcloud", "gpu-ci", "pulumi"}


def test_the_commands_that_mend_something_are_commands_of_a_shell() -> None:
    script = "\n".join(line for *_, fix in BROKEN for line in fix)
    parsed = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (parsed.returncode, parsed.stderr) == (0, "")


@pytest.mark.parametrize("by_bootstrap", [False, True])
def test_a_deployer_that_creates_no_roles_needs_those_of_bootstrap(
    environment: Environment, by_bootstrap: bool
) -> None:
    manager = {"region": "us-central1", "image": MANAGED["gpu-ci:manager"]["image"]}
    environment.replace("  gpu-ci:pools:", f"  gpu-ci:manager: {json.dumps(manager)}\n  gpu-ci:pools:")
    environment.cloud.permissions = {each for each in WIDE if not each.startswith("iam.roles.")}
    if by_bootstrap:
        environment.replace("gpu-ci:site:\n", "gpu-ci:site:\n    bootstrapRoles: true\n")
    found = fixes(environment.doctor("--json"), "google/permissions")
    assert found == ([] if by_bootstrap else [f"# {google_permissions.USE_BOOTSTRAP_ROLES}"])


def test_a_role_for_attestations_needs_an_owner_if_the_deployer_creates_no_roles(environment: Environment) -> None:
    images = {"runner": {"kind": "container", **ContainerImagePipeline.EXAMPLE, "sign": ATTESTED}}
    environment.replace("  gpu-ci:pools:", f"  gpu-ci:images: {json.dumps(images)}\n  gpu-ci:pools:")
    environment.replace("gpu-ci:site:\n", "gpu-ci:site:\n    bootstrapRoles: true\n")
    environment.cloud.permissions = {each for each in WIDE if not each.startswith("iam.roles.")}
    found = fixes(environment.doctor("--json"), "google/permissions")
    assert found == ["# sign.attestor creates a custom role: run pulumi up as an owner of the project"]


def test_the_text_has_a_table_then_got_expected_and_fix_of_each_failure(environment: Environment) -> None:
    environment.cloud.private_access = False
    lines = environment.doctor().out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("google/project ")] == [["google/project", "pass"]]
    at = lines.index("google/networks")
    assert [line.partition(":")[0] for line in lines[at + 1 : at + 4]] == ["  got", "  expected", "  fix"]
    assert lines[-1] == f"Pulumi.dev.yaml: {len(STEPS) - 1} pass, 1 fail, 0 unknown"


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


@pytest.mark.slow
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


def test_a_stack_on_ec2_has_steps_for_aws_alone_and_needs_no_other_package(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(json.dumps({"config": ec2_stack(a10g=ON_EC2)}))
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pulumi_gcp', 'pulumi_kubernetes']));"
        "from gpu_ci.cli.main import run; sys.exit(run(['doctor', 'Pulumi.dev.yaml', '--only', 'each-name']))"
    )
    finished = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    # The message lists the steps.
    assert "ec2-runners/account, ec2-runners/images" in finished.stderr
    assert finished.returncode == 2
    assert "google/policies" not in finished.stderr


def test_steps_of_google_are_about_pools_on_compute_engine_and_all_secrets_of_the_manager() -> None:
    found = google.target(read(ROOT / "Pulumi.staging.yaml"), lambda: pytest.fail("asks nothing"))
    assert [*found.pools] == ["l4", "t4"]
    assert {f"projects/example-ci-staging/secrets/jarvislabs-{name}-key" for name in ("api", "ssh")} < {*found.secrets}


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


def test_a_permission_that_is_optional_is_named_and_fails_nothing(environment: Environment) -> None:
    text = "optional, and not granted: checks: write (docs/guides/github.md)"
    assert environment.doctor().out.count(text) == 1
    environment.github.installations[1013]["permissions"]["checks"] = "write"
    assert text not in environment.doctor().out


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
ATTESTED = {**SIGNED, "attestor": "projects/example-ci/attestors/images"}
WITH_OPTIONS = {
    **ONLY_BUILDS,
    "gpu-ci:images": {
        "runner": {"kind": "container", **ContainerImagePipeline.EXAMPLE, "sign": ATTESTED, "schedule": "0 4 * * 1"}
    },
}
MANAGED = staging_with("metrics")


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(stack_config("Pulumi.staging.yaml"), id="staging"),
        *(
            pytest.param(config, id=name, marks=pytest.mark.slow)
            for name, config in {
                "prod": stack_config("Pulumi.prod.yaml"),
                "builds alone": ONLY_BUILDS,
                "nodes on GKE": ONLY_GKE,
                "images of nodes on GKE": IMAGES_ON_GKE,
                "image pipeline": WITH_IMAGES,
                "signed and scheduled images": WITH_OPTIONS,
                "manager on Cloud Run": MANAGED,
                "roles of bootstrap": {**MANAGED, "gpu-ci:site": {**MANAGED["gpu-ci:site"], "bootstrapRoles": True}},
                "roles, and attestations": {**WITH_OPTIONS, "gpu-ci:site": {"bootstrapRoles": True}},
            }.items()
        ),
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
    assert needed <= set(deployer.permissions(read(file))) <= set(WIDE)


@pytest.mark.parametrize(
    ("option", "apis"),
    [
        ({}, set()),
        ({"schedule": "0 4 * * 1"}, {"cloudscheduler.googleapis.com", "pubsub.googleapis.com"}),
        ({"sign": SIGNED}, {"cloudkms.googleapis.com"}),
        (
            {"sign": ATTESTED},
            {f"{each}.googleapis.com" for each in ("binaryauthorization", "cloudkms", "containeranalysis")},
        ),
    ],
)
def test_a_field_of_an_image_pipeline_adds_the_apis_that_it_needs(
    option: dict[str, Any], apis: set[str], tmp_path: Path
) -> None:
    pipeline = {"kind": "container", **ContainerImagePipeline.EXAMPLE, **option}
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(json.dumps({"config": {"gcp:project": "example-ci", "gpu-ci:images": {"runner": pipeline}}}))
    target = google.target(read(file), lambda: pytest.fail("asks nothing"))
    builds = ("artifactregistry", "cloudbuild", "cloudresourcemanager", "iam", "logging", "secretmanager")
    assert set(target.apis) == {f"{name}.googleapis.com" for name in builds} | apis


def test_a_manager_whose_image_is_checked_needs_binary_authorization(tmp_path: Path) -> None:
    config = {**MANAGED, "gpu-ci:manager": {**MANAGED["gpu-ci:manager"], "binaryAuthorization": True}}
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(json.dumps({"config": config}))
    assert "binaryauthorization.googleapis.com" in google.target(read(file), lambda: pytest.fail("asks nothing")).apis


def test_the_apis_of_a_stack_are_among_those_that_bootstrap_enables(tmp_path: Path) -> None:
    enabled = {f"{name}.googleapis.com" for name in bootstrap.APIS}
    config = staging_with("networks", "triggers", "alerts", "signed images")
    config["gpu-ci:pools"]["l4-gke"]["imageStreaming"] = True
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(json.dumps({"config": config}))
    used = set(google.target(read(file), lambda: pytest.fail("asks nothing")).apis)
    assert used <= enabled
    # Two of these are for jobs on GitHub, and serviceusage enables the others.
    assert enabled - used == {f"{name}.googleapis.com" for name in ("iamcredentials", "serviceusage", "sts")}


@pytest.mark.parametrize(
    ("site", "ladder", "got"),
    [
        ("networks: {us-central1: {ipRange: 10.10.0.0/20}}", "",
         "not asked for us-central1, where the stack creates the network"),
        (("subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}\n"
         "    networks: {us-east1: {ipRange: 10.10.0.0/20}}"), ", ladder: [{zones: [us-east1-b]}]",
         "us-central1 can reach the internet; not asked for us-east1, where the stack creates the network"),
    ],
)  # fmt: skip
def test_a_network_that_the_stack_creates_is_named_as_not_asked(
    environment: Environment, site: str, ladder: str, got: str
) -> None:
    environment.replace("subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}", site)
    environment.replace("max: 4}", f"max: 4{ladder}}}")
    environment.cloud.policies = {"gcp.resourceLocations": [{"values": {"deniedValues": ["us-east1-b"]}}]}
    answer = environment.doctor("--json", "--only", "google")
    found = {step["name"]: step["got"] for step in answer.json["steps"]}
    assert found["google/networks"] == got
    assert (found["google/policies"] == "gcp.resourceLocations refuses us-east1-b") is bool(ladder)
    assert (found["google/machines"] == "not offered: g2-standard-8 in us-east1-b") is bool(ladder)


@pytest.mark.parametrize(("image", "status"), [("", "pass"), ("projects/acme-ci/global/images/gpu-1", "fail")])
def test_secure_boot_that_a_policy_requires_fails_for_images_without_it(
    environment: Environment, image: str, status: str
) -> None:
    environment.cloud.policies = {"compute.requireShieldedVm": [{"enforce": True}]}
    environment.replace("max: 4}", f"max: 4, image: {image}}}" if image else "max: 4}")
    answer = environment.doctor("--json", "--only", "policies")
    assert statuses(answer) == {"google/policies": status}
    assert ("projects/acme-ci/global/images/gpu-1 boots without secure boot" in answer.out) is (status == "fail")


def test_a_service_agent_without_editor_may_have_the_two_roles_it_needs(environment: Environment) -> None:
    environment.cloud.agent_roles = (google.AGENT_MACHINES, google.AGENT_ACCOUNTS)
    assert statuses(environment.doctor("--json", "--only", "service agent")) == {"google/service agent": "pass"}
    environment.cloud.agent_roles = (google.AGENT_MACHINES,)
    assert statuses(environment.doctor("--json", "--only", "service agent")) == {"google/service agent": "unknown"}


def test_it_asks_with_the_credentials_that_the_gate_has(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "ya29.x")
    monkeypatch.setattr("gpu_ci.gcp.gate.google_service.credentials", lambda environ, scope: (dict(environ), scope))
    monkeypatch.setattr("gpu_ci.gcp.gate.google_service.connect", lambda found, _: used.append(found))
    google_api.connect()
    [(environ, scope)] = used
    assert (environ["GOOGLE_OAUTH_ACCESS_TOKEN"], scope) == (
        "ya29.x",
        "https://www.googleapis.com/auth/cloud-platform",
    )
    monkeypatch.undo()
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    monkeypatch.setenv("GOOGLE_CREDENTIALS", "{hush")
    with pytest.raises(NotAskedError, match=r"^GOOGLE_CREDENTIALS: does not contain credentials") as caught:
        google_api.connect()
    assert "hush" not in str(caught.value)


USER = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}


@pytest.mark.parametrize(
    ("login", "found"), [(USER, ""), ({**USER, "quota_project_id": "acme-ci"}, "acme-ci"), (None, None)]
)
def test_only_credentials_of_a_user_have_a_quota_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: dict[str, str] | None, found: str | None
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_QUOTA_PROJECT", raising=False)
    if login is None:
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "token")
    else:
        (tmp_path / "login.json").write_text(json.dumps(login))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "login.json"))
    assert google_api.quota_project() == found
