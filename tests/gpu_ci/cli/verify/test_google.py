"""`gpu-ci verify google`: a project in which everything is ready, and each thing that may be missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.verify import google
from gpu_ci.cli.verify.checklist import NotAskedError
from gpu_common import google_permissions

from tests.gpu_ci.cli.conftest import STACK, Answer, Ask
from tests.gpu_ci.cli.verify.google_apis import ENFORCED, SECRETS, Google

Verify = Callable[..., Answer]
SITE = """\
config:
  gpu-ci:site:
    subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}
    github:
      owner: acme
      app: {id: 1, installationId: 2, privateKey: projects/acme-ci/secrets/key}
      runnerApp: {id: 3, installationId: 4, privateKey: projects/acme-ci/secrets/runner-key}
      managerApp: {id: 5, installationId: 6, privateKey: projects/acme-ci/secrets/manager-key}
"""
STEPS = [
    "project", "apis", "permissions", "service agent", "policies", "machines", "quotas", "images", "networks",
    "secrets", "leftovers",
]  # fmt: skip


@pytest.fixture
def verify(ask: Ask, stack: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Verify:
    def call(cloud: Google, *words: str) -> Answer:
        monkeypatch.setattr(google, "connect", lambda: google.calls_over(cloud))
        return ask("verify", "google", stack(text=STACK.replace("config:\n", SITE)), *words)

    return call


def statuses(answer: Answer) -> dict[str, str]:
    return {step["name"]: step["status"] for step in answer.json["steps"]}


def test_every_step_passes_where_all_is_ready(verify: Verify, tmp_path: Path) -> None:
    answer = verify(Google(), "--json")
    assert (answer.code, statuses(answer)) == (0, dict.fromkeys(STEPS, "pass"))
    written = (tmp_path / "gpu-ci-verify-google.md").read_text()
    assert written.startswith("# gpu-ci verify google\n")
    assert [line.split(" | ")[:2] for line in written.splitlines() if line.startswith("| ")][1:] == [
        [f"| {name}", "pass"] for name in STEPS
    ]


def test_nothing_is_changed(verify: Verify) -> None:
    cloud = Google()
    verify(cloud)
    posts = [asked for asked in cloud.asked if not asked.startswith("GET ")]
    methods = ("testIamPermissions", "getIamPolicy")
    assert posts == [f"POST cloudresourcemanager /v3/projects/acme-ci:{method}" for method in methods]
    assert not any("access" in asked for asked in cloud.asked), "the value of a secret was read"


@pytest.mark.parametrize(
    ("changes", "step", "status", "got"),
    [
        ({"apis": {"cloudresourcemanager.googleapis.com", "compute.googleapis.com", "orgpolicy.googleapis.com",
                   "secretmanager.googleapis.com", "logging.googleapis.com"}},
         "apis", "fail", "not enabled: iam.googleapis.com"),
        ({"permissions": set(google_permissions.deployer()) - {"iam.serviceAccounts.actAs"}},
         "permissions", "fail", "missing: iam.serviceAccounts.actAs"),
        ({"agent_roles": ()}, "service agent", "unknown",
         "on each pool's account, from the project, a folder or the organization"),
        ({"policies": {"compute.disableGuestAttributesAccess": ENFORCED["compute.disableGuestAttributesAccess"]}},
         "policies", "fail", "is enforced: the check's verdict is then read from the serial port alone"),
        ({"policies": {"compute.trustedImageProjects": [{"values": {"allowedValues": ["projects/debian-cloud"]}}]}},
         "policies", "fail", "compute.trustedImageProjects refuses projects/ubuntu-os-accelerator-images"),
        ({"policies": {"gcp.resourceLocations": [{"values": {"allowedValues": ["in:europe-locations"]}}]}},
         "policies", "fail", "gcp.resourceLocations refuses us-central1-a, us-central1-b"),
        ({"policies": {"gcp.resourceLocations": [{"values": {"allowedValues": ["in:eu-locations"]}}]}},
         "policies", "unknown",
         "gcp.resourceLocations has values that this command cannot compare with us-central1-a, us-central1-b"),
        ({"policies": {"compute.trustedImageProjects": [{"values": {"allowedValues": ["under:folders/1"]}}]}},
         "policies", "unknown", "cannot compare with projects/ubuntu-os-accelerator-images"),
        ({"policies": {"compute.disableSerialPortLogging": [{"enforce": True, "condition": {"expression": "a"}},
                                                            {"enforce": False}]}},
         "policies", "unknown", "(steps and serial output of a VM are then not in Cloud Logging)"),
        ({"machine_types": {"us-central1-a/g2-standard-8"}}, "machines", "fail",
         "not offered: g2-standard-8 in us-central1-b"),
        ({"image": {"status": "READY", "deprecated": {"state": "OBSOLETE"}}}, "images", "fail", "is OBSOLETE"),
        ({"private_access": False}, "networks", "fail", "ci lacks Private Google Access"),
        ({"nats": []}, "networks", "fail", "no Cloud NAT on the network of ci in us-central1"),
        ({"secrets": {**SECRETS, "key": "DISABLED"}}, "secrets", "fail",
         "the latest version of projects/acme-ci/secrets/key is DISABLED"),
        ({"secrets": {**SECRETS, "runner-key": ""}}, "secrets", "fail",
         "the latest version of projects/acme-ci/secrets/runner-key is missing"),
        ({"secrets": {**SECRETS, "manager-key": "DESTROYED"}}, "secrets", "fail",
         "the latest version of projects/acme-ci/secrets/manager-key is DESTROYED"),
        ({"check_vms": ["l4-gate-x"]}, "leftovers", "fail", "VMs of a smoke check exist: l4-gate-x"),
    ],
)  # fmt: skip
def test_what_is_missing_fails_its_own_step_alone(
    verify: Verify, changes: dict[str, Any], step: str, status: str, got: str
) -> None:
    answer = verify(Google(**changes), "--json")
    assert answer.code == 1
    assert statuses(answer) == {**dict.fromkeys(STEPS, "pass"), step: status}
    [found] = [each["got"] for each in answer.json["steps"] if each["name"] == step]
    assert found.endswith(got)


def test_a_service_agent_without_editor_may_have_the_two_roles_it_needs(verify: Verify) -> None:
    both = ("roles/compute.instanceAdmin.v1", "roles/iam.serviceAccountUser")
    assert statuses(verify(Google(agent_roles=both), "--json"))["service agent"] == "pass"
    assert statuses(verify(Google(agent_roles=both[:1]), "--json"))["service agent"] == "unknown"


def test_a_stack_with_build_pools_needs_their_apis_too(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = "    builds: {kind: cloud-build, region: us-central1, machineType: e2-standard-2}\n"
    monkeypatch.setattr("tests.gpu_ci.cli.verify.test_google.STACK", STACK + builds)
    answer = verify(Google(), "--json")
    [found] = [each["got"] for each in answer.json["steps"] if each["status"] == "fail"]
    assert found == "not enabled: artifactregistry.googleapis.com, cloudbuild.googleapis.com"


def test_a_cause_is_shown_once_and_without_the_hint_for_a_failure(verify: Verify) -> None:
    cloud = Google()
    cloud.apis -= {"compute.googleapis.com"}
    lines = verify(cloud).out.splitlines()
    compute = [line for line in lines if line.startswith("unknown")]
    assert len(compute) == 5
    assert compute[0].startswith("unknown  machines: not asked: compute.googleapis.com has not been used")
    assert compute[1:] == [
        f"unknown  {name}: for the same reason as machines" for name in ("quotas", "images", "networks", "leftovers")
    ]
    assert [line.strip().partition(":")[0] for line in lines if line.startswith(" ")] == ["expected", "hint"]


@pytest.mark.parametrize(
    ("value", "image"),
    [
        ("is:projects/ubuntu-os-accelerator-images", ""),
        ("projects/debian-cloud", "\n      image: projects/acme-ci/global/images/gpu-1"),
    ],
)
def test_a_policy_on_images_allows_named_projects_and_the_projects_own(
    ask: Ask, stack: Any, monkeypatch: pytest.MonkeyPatch, value: str, image: str
) -> None:
    cloud = Google(policies={"compute.trustedImageProjects": [{"values": {"allowedValues": [value]}}]})
    monkeypatch.setattr(google, "connect", lambda: google.calls_over(cloud))
    text = STACK.replace("config:\n", SITE).replace("kind: gce-runners", f"kind: gce-runners{image}")
    assert image in text
    assert statuses(ask("verify", "google", stack(text=text), "--json"))["policies"] == "pass"


@pytest.mark.parametrize(("image", "status"), [("", "pass"), ("projects/acme-ci/global/images/gpu-1", "fail")])
def test_secure_boot_that_a_policy_requires_fails_for_images_without_it(
    ask: Ask, stack: Any, monkeypatch: pytest.MonkeyPatch, image: str, status: str
) -> None:
    cloud = Google(policies={"compute.requireShieldedVm": [{"enforce": True}]})
    monkeypatch.setattr(google, "connect", lambda: google.calls_over(cloud))
    text = STACK.replace("config:\n", SITE)
    text = text.replace("kind: gce-runners", f"kind: gce-runners\n      image: {image}") if image else text
    answer = ask("verify", "google", stack(text=text), "--json")
    assert statuses(answer)["policies"] == status
    assert ("projects/acme-ci/global/images/gpu-1 boots without secure boot" in answer.out) is (status == "fail")


@pytest.mark.parametrize(
    ("site", "ladder", "got"),
    [
        ("subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}", "",
         "us-central1 can reach the internet"),
        ("networks: {us-central1: {ipRange: 10.10.0.0/20}}", "",
         "not asked for us-central1, where the stack creates the network"),
        (("subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}\n"
         "    networks: {us-east1: {ipRange: 10.10.0.0/20}}"), "      ladder: [{zones: [us-east1-b]}]\n",
         "us-central1 can reach the internet; not asked for us-east1, where the stack creates the network"),
    ],
)  # fmt: skip
def test_a_network_that_the_stack_creates_is_named_as_not_asked(
    ask: Ask, stack: Callable[..., str], monkeypatch: pytest.MonkeyPatch, site: str, ladder: str, got: str
) -> None:
    cloud = Google()
    monkeypatch.setattr(google, "connect", lambda: google.calls_over(cloud))
    own = SITE.replace("subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}", site)
    answer = ask("verify", "google", stack(text=STACK.replace("config:\n", own) + ladder), "--json")
    assert {each["name"]: each["got"] for each in answer.json["steps"]}["networks"] == got


def test_the_places_of_a_ladder_are_asked_for_too(
    ask: Ask, stack: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = Google(policies={"gcp.resourceLocations": [{"values": {"deniedValues": ["us-east1-b"]}}]})
    monkeypatch.setattr(google, "connect", lambda: google.calls_over(cloud))
    site = SITE.replace("    github:\n", "    networks: {us-east1: {ipRange: 10.10.0.0/20}}\n    github:\n", 1)
    text = f"{STACK.replace('config:', site.rstrip(), 1)}      ladder: [{{zones: [us-east1-b]}}]\n"
    answer = ask("verify", "google", stack(text=text), "--json")
    got = {each["name"]: (each["status"], each["got"]) for each in answer.json["steps"]}
    assert got["machines"] == ("fail", "not offered: g2-standard-8 in us-east1-b")
    assert got["policies"] == ("fail", "gcp.resourceLocations refuses us-east1-b")


def test_a_quota_that_is_too_small_fails_and_one_that_google_does_not_answer_is_unknown(verify: Verify) -> None:
    quotas = {"PREEMPTIBLE_NVIDIA_L4_GPUS": 4, "SSD_TOTAL_GB": 500, "GPUS_ALL_REGIONS": 5}
    assert statuses(verify(Google(quotas=quotas), "--json"))["quotas"] == "fail"
    assert statuses(verify(Google(quotas={"GPUS_ALL_REGIONS": 5}), "--json"))["quotas"] == "unknown"


def test_a_service_that_is_off_leaves_its_steps_unknown_and_the_others_asked(verify: Verify) -> None:
    cloud = Google()
    cloud.apis -= {"orgpolicy.googleapis.com"}
    answer = verify(cloud, "--json")
    assert (answer.code, statuses(answer)) == (1, {**dict.fromkeys(STEPS, "pass"), "policies": "unknown"})


def test_it_asks_with_the_credentials_that_the_gate_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    used: list[Any] = []

    def credentials(environ: Any, scope: str) -> str:
        asked.append((environ["GOOGLE_OAUTH_ACCESS_TOKEN"], scope))
        return "those of the gate"

    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "ya29.x")
    monkeypatch.setattr(google.credentials, "credentials", credentials)
    monkeypatch.setattr(google.connection, "connect", lambda found, _: used.append(found))
    google.connect()
    assert (asked, used) == ([("ya29.x", "https://www.googleapis.com/auth/cloud-platform")], ["those of the gate"])


def test_credentials_that_cannot_be_used_are_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    monkeypatch.setenv("GOOGLE_CREDENTIALS", "{hush")
    with pytest.raises(NotAskedError, match=r"^GOOGLE_CREDENTIALS: does not contain credentials") as caught:
        google.connect()
    assert "hush" not in str(caught.value)


def test_without_credentials_every_step_is_unknown(ask: Ask, stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect() -> google.Call:
        raise NotAskedError("no credentials")

    monkeypatch.setattr(google, "connect", connect)
    answer = ask("verify", "google", stack(text=STACK.replace("config:\n", SITE)), "--json")
    assert (answer.code, statuses(answer)) == (1, dict.fromkeys(STEPS, "unknown"))


def test_the_output_has_a_hint_for_each_failed_step(verify: Verify) -> None:
    answer = verify(Google(nats=[]))
    lines = answer.out.splitlines()
    at = lines.index("fail     networks: no Cloud NAT on the network of ci in us-central1")
    assert [line.strip().partition(":")[0] for line in lines[at + 1 : at + 3]] == ["expected", "hint"]
    assert answer.err.splitlines()[: len(STEPS)] == [f"{step} ..." for step in STEPS]


def test_a_stack_without_pools_on_compute_engine_is_refused(ask: Ask, stack: Any) -> None:
    pool = "{kind: cloud-build, region: us-central1, machineType: e2-standard-2}"
    text = f"config:\n  gcp:project: acme-ci\n  gpu-ci:pools:\n    builds: {pool}\n"
    answer = ask("verify", "google", stack(text=text))
    assert (answer.code, answer.out) == (2, "")
    assert "expected: a pool of kind gce-runners" in answer.err


def test_several_stack_files_are_refused(ask: Ask, stack: Any) -> None:
    stack(name="Pulumi.a.yaml")
    stack(name="Pulumi.b.yaml")
    answer = ask("verify", "google", "--json")
    assert answer.code == 2
    assert json.loads(answer.out)["error"]["problems"][0]["got"] == "Pulumi.a.yaml, Pulumi.b.yaml"
