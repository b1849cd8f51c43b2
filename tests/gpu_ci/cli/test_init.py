"""`gpu-ci init`: the files of a new repository, and every mistake of its options."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from gpu_ci.cli import new_files
from gpu_preview.environment.virtualenv import site_packages

from tests.conftest import ROOT, with_fake_torch
from tests.gpu_ci.cli.conftest import Ask
from tests.sandbox_runner import cheaper
from tests.test_docs import fences

FILES = [
    ".gitignore",
    "Pulumi.dev.yaml",
    "Pulumi.yaml",
    "__main__.py",
    "plugin/PulumiPlugin.yaml",
    "plugin/__main__.py",
    "requirements.txt",
    "sandbox.yaml",
]
IMAGE = f"ghcr.io/acme/runner:2.336.0@sha256:{'0' * 64}"
GITHUB = ("--organization", "acme", "--repository", "kernels")
GOOGLE = ("--project", "acme-ci", "--pool", "l4=g2-standard-8:spot")
AWS = (
    *("--project", "acme-ci", *GITHUB, "--pool", "a10g=g5.2xlarge:spot", "--cluster", "ci", "--runner-image", IMAGE),
    *("--subnet", "us-east-1a=subnet-0a1b2c3d4e5f60001", "--subnet", "us-east-1b=subnet-0a1b2c3d4e5f60002"),
)
COMMIT = "1f" * 20
PACKAGE = ("--package", f"git+https://github.com/example-org/gpu-ci@{COMMIT}")
GKE = (*GOOGLE, *GITHUB, "--gke-cluster", "gpu", "--location", "us-central1", "--runner-image", IMAGE)
AWS_ALONE = ("--aws-account", "111122223333", *AWS[2:])
EC2 = ("--aws-account", "111122223333", *GITHUB, "--pool", "a10g=g5.xlarge:spot", *AWS[-4:])
SETS: dict[str, tuple[str, ...]] = {
    "google": (*GOOGLE, *GITHUB),
    "aws": AWS,
    "aws-alone": AWS_ALONE,
    "ec2": EC2,
    "both": (*AWS, "--pool", "l4=g2-standard-8:spot"),
    "gke": GKE,
    "both-clusters": (*AWS, *GKE[2:4], *GKE[8:12]),
}

MORE_SETS = {
    "project": GOOGLE,
    **SETS,
    "gke-zonal": (
        *(*GKE[:-3], "us-central1-b", *GKE[-2:], "--region", "us-east1"),
        *("--pool", "t4=n1-standard-8+nvidia-tesla-t4x2"),
    ),
}
Golden = Callable[[str, str], None]


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_without_write_no_file_is_written_and_every_file_is_printed(ask: Ask, tmp_path: Path) -> None:
    answer = ask("init", "new", *GOOGLE)
    assert (answer.code, answer.err, written(tmp_path)) == (0, "", [])
    assert [line for line in FILES if f"{line}\n" in answer.out] == FILES
    assert "Nothing was written." in answer.out


@pytest.mark.parametrize("options", SETS.values(), ids=SETS)
def test_the_written_stack_file_passes_the_check(ask: Ask, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert ask("init", "new", *options, "--write").code == 0
    assert written(tmp_path / "new") == FILES
    answer = ask("check", "new/Pulumi.dev.yaml", "--json")
    assert (answer.code, [each["works"] for each in answer.json]) == (0, [True])
    site = yaml.safe_load((tmp_path / "new/Pulumi.dev.yaml").read_text())["config"]["gpu-ci:site"]
    assert site.get("bootstrapRoles", False) is ("g2-standard-8" in str(options))


@pytest.mark.parametrize(("options", "noted"), [((), True), (("--plan", "team"), False)])
def test_without_the_plan_of_the_organization_the_check_names_what_needs_one(
    ask: Ask, options: tuple[str, ...], noted: bool
) -> None:
    assert ask("init", "new", *SETS["google"], *options, "--write").code == 0
    assert ("GitHub plans" in ask("check", "new/Pulumi.dev.yaml").out) == noted


@pytest.mark.parametrize("name", MORE_SETS)
def test_the_files_and_the_next_steps(ask: Ask, golden: Golden, name: str) -> None:
    """The golden files of all options but the first leave out the files that are the same as with the first."""
    first, answer = (ask("init", "new", *options, *PACKAGE, "--json").json for options in (GOOGLE, MORE_SETS[name]))
    files = {path: text for path, text in answer["files"].items() if text != first["files"][path] or name == "project"}
    steps = "".join(f"- {step}\n" for step in answer["next"])
    golden(
        f"init/{name}.txt",
        "".join(f"=== {path}\n{text}" for path, text in files.items()) + f"=== next\n{steps}",
    )


def test_the_pools_of_a_second_stack_have_other_labels(ask: Ask, tmp_path: Path) -> None:
    other_subnets = tuple(word.replace("subnet-0a", "subnet-0b") for word in SETS["both"])
    for stack, options in (("dev", SETS["both"]), ("Prod_1", other_subnets)):
        assert ask("init", "new", *options, "--stack", stack, "--write").code == 0
    config = yaml.safe_load((tmp_path / "new" / "Pulumi.Prod_1.yaml").read_text())["config"]
    pools = config["gpu-ci:pools"]
    assert pools["l4"]["runnerLabels"] == ["self-hosted", "gpu", "l4-prod-1"]
    assert pools["a10g"]["runner"]["scaleSetName"] == "a10g-prod-1"
    assert "managed" not in config["gpu-ci:clusters"]["ci"], "a cluster of this name in another account"
    for name in ("dev", "Prod_1"):
        [answer] = ask("check", f"new/Pulumi.{name}.yaml", "--json").json
        assert (answer["works"], [note for note in answer["notes"] if "Pulumi." in note]) == (True, [])


@pytest.mark.parametrize("options", [SETS["aws"], SETS["gke"]], ids=["eks", "gke"])
def test_a_second_stack_on_a_cluster_leaves_what_the_first_one_creates(
    ask: Ask, tmp_path: Path, options: tuple[str, ...]
) -> None:
    for stack in ("dev", "prod"):
        assert ask("init", "new", *options, "--stack", stack, "--write").code == 0
    file = tmp_path / "new" / "Pulumi.prod.yaml"
    config = yaml.safe_load(file.read_text())["config"]
    [cluster], [name] = config["gpu-ci:clusters"].values(), config["gpu-ci:pools"]
    assert (cluster["managed"], cluster["namespace"], name[-5:]) == (False, "gpu-ci-prod", "-prod")
    assert [each for each in ask("check", "new/Pulumi.prod.yaml", "--json").json[0]["notes"] if "Pulumi." in each] == []
    first = tmp_path / "new" / "Pulumi.dev.yaml"
    managed = first.read_text()
    first.write_text(re.sub(r"( +)(location|region): (us\S+)", r"\1\2: \3\n\1managed: false", managed))
    notes = ask("check", "new/Pulumi.prod.yaml", "--json").json[0]["notes"]
    assert [note for note in notes if ".managed: no stack of this folder" in note], notes
    first.write_text(managed)
    # Without these keys, `gpu-ci check` of either stack says what is missing.
    text = re.sub(r"managed: false|namespace: \S+", "", file.read_text()).replace(f"{name}:", f"{name[:-5]}:")
    file.write_text(re.sub(r"( +)(location|region): (us\S+)", r"\1\2: \3\n\1kueue: {queues: {a: {gpus: 1}}}", text))
    for stack in ("dev", "prod"):
        notes = ask("check", f"new/Pulumi.{stack}.yaml", "--json").json[0]["notes"]
        assert [note.partition(": ")[0].rpartition(".")[2] for note in notes if "Pulumi." in note] == [
            name[:-5], "managed", "namespace", "kueue", name[:-5]
        ]  # fmt: skip


def test_a_runner_on_a_small_node_gets_what_the_node_has_for_pods(ask: Ask, tmp_path: Path) -> None:
    small = ("l4=g2-standard-4", "t4=n1-standard-4+nvidia-tesla-t4x1", "a10g=g5.xlarge", "big=g2-standard-8")
    pools = tuple(word for pool in small for word in ("--pool", pool))
    options = tuple(word for word in SETS["both-clusters"] if word not in ("--pool", "a10g=g5.2xlarge:spot", GOOGLE[3]))
    assert ask("init", "new", *options, *pools, "--write").code == 0
    found = yaml.safe_load((tmp_path / "new" / "Pulumi.dev.yaml").read_text())["config"]["gpu-ci:pools"]
    sizes = {
        name: {key: value for key, value in pool["runner"].items() if key != "image"} for name, pool in found.items()
    }
    assert sizes == {
        "l4": {"cpus": 3, "memoryGib": 12},
        "t4": {"cpus": 3, "memoryGib": 11},
        "a10g": {"cpus": 3, "memoryGib": 13},
        "big": {},
    }
    assert ask("check", "new/Pulumi.dev.yaml").code == 0


@pytest.mark.parametrize("more", [(), GKE[8:]], ids=["Compute Engine", "GKE"])
def test_a_flex_start_pool_has_the_time_limit_that_it_needs(ask: Ask, tmp_path: Path, more: tuple[str, ...]) -> None:
    options = ("--project", "acme-ci", *GITHUB, "--pool", "l4=g2-standard-8:flex-start", *more)
    assert ask("init", "new", *options, "--write").code == 0
    [pool] = yaml.safe_load((tmp_path / "new" / "Pulumi.dev.yaml").read_text())["config"]["gpu-ci:pools"].values()
    assert (pool["market"], pool["maxRunDurationSec"]) == ("flex-start", 21600)
    assert ask("check", "new/Pulumi.dev.yaml").code == 0


def test_a_second_stack_keeps_the_files_of_the_first(ask: Ask, tmp_path: Path) -> None:
    ask("init", "new", *GOOGLE, "--write")
    (tmp_path / "new" / "__main__.py").write_text("mine\n")
    answer = ask("init", "new", *GOOGLE, "--stack", "prod", "--write")
    results = dict(answer.rows)
    assert results.pop("__main__.py") == "kept: exists with other content"
    assert results.pop("Pulumi.prod.yaml") == "written"
    assert set(results.values()) == {"exists, unchanged"}
    assert (tmp_path / "new" / "__main__.py").read_text() == "mine\n"


def test_an_existing_stack_is_refused_and_kept(ask: Ask, tmp_path: Path) -> None:
    ask("init", "new", *GOOGLE, "--write")
    before = (tmp_path / "new" / "Pulumi.dev.yaml").read_text()
    answer = ask("init", "new", *GOOGLE, "--region", "europe-west4", "--write")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("new/Pulumi.dev.yaml: exists, and init never changes a file\n")
    assert (tmp_path / "new" / "Pulumi.dev.yaml").read_text() == before


def test_workflows_are_added_to_an_existing_stack_with_only_the_steps_that_they_need(ask: Ask, tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert "the same options" in ask("init", "new", *SETS["google"], "--write").out.splitlines()[-1]
    (new / "Pulumi.dev.yaml").write_text(own := (new / "Pulumi.dev.yaml").read_text().replace("id: 1,", "id: 4711,"))
    answer = ask("init", "new", *SETS["google"], *PACKAGE, "--write")
    assert (new / "Pulumi.dev.yaml").read_text() == own
    assert dict(answer.rows)["Pulumi.dev.yaml"] == "kept: exists with other content"
    assert [path for path, result in answer.rows if result == "written"] == sorted(WORKFLOWS)
    steps = answer.out[answer.out.index("\nNext:") :]
    assert "pip install" in steps
    assert "doctor" not in steps
    assert "github-app create" not in steps


def test_a_stack_of_another_cloud_prints_the_lines_that_existing_files_lack(
    ask: Ask, tmp_path: Path, golden: Golden
) -> None:
    ask("init", "new", *GOOGLE, *GITHUB, "--package", "git+https://example.com/gpu-ci@0123", "--write")
    before = {path: (tmp_path / "new" / path).read_text() for path in FILES}
    answer = ask("init", "new", *AWS, "--stack", "prod", "--package", "git+https://example.com/gpu-ci@0123", "--write")
    assert {path: (tmp_path / "new" / path).read_text() for path in FILES} == before
    results = dict(answer.rows)
    assert [path for path, result in results.items() if "below" in result] == ["requirements.txt", "sandbox.yaml"]
    printed = answer.out[answer.out.index("--- a/") : answer.out.index("\nNext:")]
    golden("init/changes.txt", printed)
    # The lines are a patch: with it, the files have what both stacks need.
    subprocess.run(["git", "apply", "--unidiff-zero"], cwd=tmp_path / "new", input=printed, text=True, check=True)
    again = ask("init", "new", *AWS, "--stack", "qa", "--package", "git+https://example.com/gpu-ci@0123", "--json")
    assert again.json["changes"] == {}
    both = ask("init", "both", *SETS["both"], "--package", "git+https://example.com/gpu-ci@0123", "--json").json
    assert (tmp_path / "new" / "requirements.txt").read_text() == both["files"]["requirements.txt"]
    own = (tmp_path / "new" / "sandbox.yaml").read_text().splitlines()
    assert sorted(own) == sorted(both["files"]["sandbox.yaml"].splitlines())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpu-ci==0.1.0", "gpu-ci[aws,cli]==0.1.0"),
        ("gpu-ci[all]==0.1.0", "gpu-ci[all]==0.1.0"),
        ("gpu_ci [preview, cli] @ file:///x # ours", "gpu_ci[aws,cli,preview] @ file:///x # ours"),
        ("gpu-ci-tools==1", "gpu-ci-tools==1\ngpu-ci[aws,cli]==0.1.0"),
        ("# nothing", "# nothing\ngpu-ci[aws,cli]==0.1.0"),
    ],
)
def test_the_extras_are_added_to_the_requirement_and_the_rest_of_the_line_stays(line: str, expected: str) -> None:
    assert new_files.with_extras(f"{line}\n", "gpu-ci[aws,cli]==0.1.0\n") == f"{expected}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1]\nb: {c: 1}\n", "a: [1, 2, 3]\nb: {c: 1, d: {e: 1}}\n"),
        ("a: []\nb: {}\n", "a: [2, 3]\nb: {d: {e: 1}}\n"),
        ("a:\n- 1\n\nb:\n    c: 1\n", "a:\n- 1\n- 2\n- 3\n\nb:\n    c: 1\n    # why\n    d:\n      e: 1\n"),
        ("a: [2, 3]", "a: [2, 3]\nb:\n  # why\n  d:\n    e: 1\n"),
        ("", "a:\n  - 2\n  - 3\nb:\n  # why\n  d:\n    e: 1\n"),
    ],
)
def test_entries_are_added_in_the_style_of_the_file(text: str, expected: str) -> None:
    assert new_files.with_entries(text, "a:\n  - 2\n  - 3\nb:\n  # why\n  d:\n    e: 1\n") == expected


WORKFLOWS = [f".github/workflows/{name}.yaml" for name in ("deploy", "preview", "preview-comment")]


def test_the_workflows_pass_the_linters_and_use_one_commit(ask: Ask, tmp_path: Path) -> None:
    paths = []
    for name, options in SETS.items():
        assert ask("init", name, *options, *PACKAGE, "--write").code == 0
        assert written(tmp_path / name) == sorted([*WORKFLOWS, *FILES])
        paths += [f"{name}/{path}" for path in WORKFLOWS]
        texts = [(tmp_path / name / path).read_text() for path in WORKFLOWS]
        used = [line.split("uses: ")[1] for text in texts for line in text.splitlines() if "uses: " in line]
        assert sorted(name.removesuffix(f"@{COMMIT}") for name in used if COMMIT in name) == [
            "example-org/gpu-ci/.github/actions/preview",
            "example-org/gpu-ci/.github/actions/preview-comment",
            "example-org/gpu-ci/.github/workflows/deploy-stack.yaml",
        ]
    tools = Path(sys.executable).parent
    for command in (
        [tools / "check-jsonschema", "--quiet", "--builtin-schema", "vendor.github-workflows", *paths],
        [tools / "zizmor", "--offline", "--no-progress", "--quiet", *SETS],
    ):
        checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_deployment_of_a_stack_has_the_inputs_of_the_reusable_workflow(ask: Ask) -> None:
    answer = ask("init", "new", *AWS, *PACKAGE, "--stack", "us.prod-1", "--json").json
    [job] = yaml.safe_load(answer["files"][".github/workflows/deploy.yaml"])["jobs"].items()
    reusable = yaml.safe_load((ROOT / ".github/workflows/deploy-stack.yaml").read_text())
    assert job[0] == "deploy-us-prod-1"
    assert job[1]["permissions"] == {"contents": "read", "id-token": "write"}
    assert job[1]["with"].keys() <= reusable[True]["workflow_call"]["inputs"].keys()
    assert {name: value for name, value in job[1]["with"].items() if "vars." in str(value)} == {
        "backend": "${{ vars.PULUMI_BACKEND_US_PROD_1 }}",
        "google-provider": "${{ vars.GOOGLE_PROVIDER_US_PROD_1 }}",
        "google-service-account": "${{ vars.GOOGLE_SERVICE_ACCOUNT_US_PROD_1 }}",
        "aws-role": "${{ vars.AWS_ROLE_US_PROD_1 }}",
    }
    names = ("PULUMI_BACKEND", "GOOGLE_PROVIDER", "GOOGLE_SERVICE_ACCOUNT", "AWS_ROLE")
    variables = ", ".join(f"{name}_US_PROD_1" for name in names)
    assert [step for step in answer["next"] if variables in step] == [answer["next"][-2]]
    assert answer["next"][-3].startswith("create the environment us.prod-1 at GitHub")


def test_the_preview_workflows_are_those_of_the_page(ask: Ask) -> None:
    written_files = ask("init", "new", *GOOGLE, *PACKAGE, "--json").json["files"]
    page = [text for language, text in fences(ROOT / "docs/guides/preview-on-github.md") if language == "yml"]
    for path, shown in zip(WORKFLOWS[1:], page, strict=False):
        ours = yaml.safe_load(written_files[path])
        for job in ours["jobs"].values():
            for step in job["steps"]:
                # requirements.txt of init has an address.
                install = step.get("with", {}).pop("install", "--only-binary :all:")
                assert "--only-binary :all:" in install, "no package of a pull request is built"
        assert ours == yaml.safe_load(shown.replace("OWNER", "example-org").replace("COMMIT", COMMIT))


@pytest.mark.parametrize(
    "address",
    [
        "git+https://example.com/acme/gpu-ci@" + COMMIT,
        "git+https://github.com/acme/gpu-ci@v0.1.0",
        "git+https://github.com/acme/gpu-ci@" + COMMIT[1:],
    ],
)
def test_an_address_that_is_no_commit_at_github_gets_no_workflow(ask: Ask, address: str) -> None:
    answer = ask("init", "new", *GOOGLE, "--package", address, "--json").json
    assert sorted(answer["files"]) == FILES
    assert "--package git+https://github.com/OWNER/gpu-ci@COMMIT" in answer["next"][-1]


def test_a_second_stack_adds_its_job_to_the_deployment(ask: Ask, tmp_path: Path) -> None:
    ask("init", "new", *GOOGLE, *PACKAGE, "--write")
    changes = ask("init", "new", *GOOGLE, *PACKAGE, "--stack", "prod", "--json").json["changes"]
    assert list(changes) == [".github/workflows/deploy.yaml"]
    [patch] = changes.values()
    subprocess.run(["git", "apply", "--unidiff-zero"], cwd=tmp_path / "new", input=patch, text=True, check=True)
    workflow = yaml.safe_load((tmp_path / "new" / WORKFLOWS[0]).read_text())
    assert workflow[True]["workflow_dispatch"]["inputs"]["stack"]["options"] == ["dev", "prod"]
    assert {name: job["with"]["stack"] for name, job in workflow["jobs"].items()} == {
        "deploy-dev": "dev",
        "deploy-prod": "prod",
    }


def created_by_github(stack: Path, old: int, new: int) -> None:
    """Write numbers into the stack file as `gpu-ci github-app create` does."""
    text = stack.read_text()
    assert f"{{id: {old}, installationId: 1{old}," in text
    stack.write_text(text.replace(f"{{id: {old}, installationId: 1{old},", f"{{id: {new}, installationId: 9{new},"))


def test_a_second_stack_has_the_apps_that_the_first_one_created(ask: Ask, tmp_path: Path) -> None:
    ask("init", "new", *SETS["google"], "--write")
    for old, new in ((1, 101), (3, 103)):
        created_by_github(tmp_path / "new" / "Pulumi.dev.yaml", old, new)
    answer = ask("init", "new", *SETS["both"], "--stack", "prod", "--json").json
    github = yaml.safe_load(answer["files"]["Pulumi.prod.yaml"])["config"]["gpu-ci:site"]["github"]
    keys = "projects/acme-ci/secrets"
    assert github == {
        "owner": "acme",
        "app": {"id": 101, "installationId": 9101, "privateKey": f"{keys}/github-admin-app-key"},
        "runnerApp": {"id": 2, "installationId": 12, "privateKey": f"{keys}/github-runner-app-key"},
        "managerApp": {"id": 103, "installationId": 9103, "privateKey": f"{keys}/github-manager-app-key"},
    }
    create = ".venv/bin/gpu-ci github-app create Pulumi.prod.yaml --only runnerApp   (creates runnerApp at GitHub)"
    assert [step for step in answer["next"] if "github-app" in step] == [create]
    again = ask("init", "new", *SETS["google"], "--stack", "qa", "--json").json
    assert [step for step in again["next"] if "github-app" in step] == []


@pytest.mark.parametrize(("account", "number"), [("111122223333", 101), ("444455556666", 1)])
def test_only_a_stack_of_the_same_aws_account_has_the_apps_of_another(
    ask: Ask, tmp_path: Path, account: str, number: int
) -> None:
    ask("init", "new", *AWS_ALONE, "--write")
    created_by_github(tmp_path / "new" / "Pulumi.dev.yaml", 1, 101)
    options = tuple(word.replace("111122223333", account) for word in AWS_ALONE)
    file = ask("init", "new", *options, "--stack", "prod", "--json").json["files"]["Pulumi.prod.yaml"]
    app = yaml.safe_load(file)["config"]["gpu-ci:site"]["github"]["app"]
    assert (app["id"], app["privateKey"].split(":")[4]) == (number, account)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gcp:project: acme-ci", "gcp:project: acme-other"),
        ("owner: acme", "owner: acme-labs"),
        ("installationId: 9101", "installationId: null"),
        ("config:", "config: ["),
    ],
)
def test_the_app_of_another_project_or_organization_or_of_a_broken_file_is_not_taken_over(
    ask: Ask, tmp_path: Path, old: str, new: str
) -> None:
    ask("init", "new", *SETS["google"], "--write")
    stack = tmp_path / "new" / "Pulumi.dev.yaml"
    created_by_github(stack, 1, 101)
    assert old in stack.read_text()
    stack.write_text(stack.read_text().replace(old, new))
    answer = ask("init", "new", *SETS["google"], "--stack", "prod", "--json").json
    github = yaml.safe_load(answer["files"]["Pulumi.prod.yaml"])["config"]["gpu-ci:site"]["github"]
    assert (github["app"]["id"], github["app"]["installationId"]) == (1, 11)


def replaced(old: str, new: str, options: tuple[str, ...] = AWS) -> tuple[str, ...]:
    """The options with another value."""
    assert old in options
    return tuple(new if value == old else value for value in options)


SUBNET = "us-east-1a=subnet-0a1b2c3d4e5f60001"
FILE = "Pulumi.dev.yaml: gpu-ci"
NO_POOL = "is for pools of kind eks-runners, and there are none"
# Options -> the lines without got, expected and hint that the error must have.
MISTAKES: dict[tuple[str, ...], list[str]] = {
    ("--pool", "l4=g2-standard-8"): ["--project: is missing"],
    ("--pool", "a10g=g5.2xlarge", "--cluster", "ci"): [
        f"{option}: is missing"
        for option in ("--subnet", "--runner-image", "--organization", "--repository", "--aws-account")
    ],
    ("--pool", "a10g=g5.2xlarge"): [
        f"{option}: is missing" for option in ("--subnet", "--organization", "--repository", "--aws-account")
    ],
    (*AWS_ALONE, "--project", "acme-ci"): [
        "--aws-account: is for stacks with pools on AWS alone, and replaces --project"
    ],
    (*SETS["google"], "--aws-account", "111122223333"): [
        "--aws-account: is for stacks with pools on AWS alone, and replaces --project"
    ],
    ("--aws-account", "1", *AWS[2:]): ["--aws-account: is not the number of an AWS account"],
    (*GOOGLE, "--gke-cluster", "gpu"): [
        f"{option}: is missing" for option in ("--location", "--runner-image", "--organization", "--repository")
    ],
    (*GOOGLE, "--organization", "acme"): ["--repository: is missing"],
    (*GOOGLE, "--cluster", "ci"): [f"--cluster: {NO_POOL}"],
    ("--project", "acme-ci", "--pool", "l4"): ["--pool: has a form that is not accepted"],
    (*GOOGLE, "--pool", "b=g2-standard-9"): ["--pool: unknown machine type with a GPU 'g2-standard-9'"],
    (*GOOGLE, "--region", "us-central1-a"): ["--region: is a zone"],
    (*GOOGLE, "--stack", "x: {\n"): ["--stack: is not a name that Pulumi accepts"],
    (*GOOGLE, "--stack", "Pulumi.prod.yaml"): ["--stack: is a file, not a stack"],
    (*GOOGLE, "--package", "git+https://github.com/OWNER/gpu-ci@COMMIT"): ["--package: has the placeholder OWNER"],
    (*AWS, "--subnet", "us-west-2a=subnet-0a1b2c3d4e5f60003"): ["--subnet: has zones of several regions"],
    (*AWS, "--subnet", "us-east-1a=subnet-0a1b2c3d4e5f60003"): ["--subnet: has the zone us-east-1a 2 times"],
    replaced("a10g=g5.2xlarge:spot", "a10g=g5.2xlarge:foo", AWS_ALONE): ["--pool: unknown market 'foo'"],
    replaced(SUBNET, "us-east-1a"): ["--subnet: has a form that is not accepted"],
    replaced("gpu", "ci", SETS["both-clusters"]): [
        "--gke-cluster: has the name of the EKS cluster, and the clusters of a stack file have different names"
    ],
    # Mistakes that the check of the stack file finds.
    (*GOOGLE, "--pool", "b=a4-highgpu-8g:reservation"): [
        f"{FILE}:pools.b.reservation: is missing; market: reservation requires it"
    ],
    ("--project", 'a", x: "y'): ["Pulumi.dev.yaml: gcp:project: has a form that is not accepted"],
    # One report has all mistakes of options.
    ("--project", "Acme_CI", "--region", "us-central1-a", "--pool", "l4=g2-standard-8", "--pool", "l4=t"): [
        "--pool: unknown machine type with a GPU 't'",
        "--region: is a zone",
    ],
}


@pytest.mark.parametrize(("options", "problems"), MISTAKES.items(), ids=[" ".join(key)[:60] for key in MISTAKES])
def test_mistakes_are_reported_together_and_nothing_is_written(
    ask: Ask, tmp_path: Path, options: tuple[str, ...], problems: list[str]
) -> None:
    answer = ask("init", "new", *options, "--write")
    assert (answer.code, answer.out, written(tmp_path)) == (2, "", [])
    found = [line.removeprefix("gpu-ci init: ") for line in answer.err.splitlines() if line.startswith("gpu-ci init: ")]
    assert sorted(found) == sorted(problems)
    assert answer.err.endswith("\nnothing was written\n")


Prepare = Callable[[Path], object]


def writes(name: str, content: str | bytes) -> Prepare:
    """Returns what writes one file of the folder of init."""

    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return write


# What is in the folder before -> the lines without got, expected and hint of the error.
IN_THE_WAY: dict[str, tuple[Prepare, list[str]]] = {
    "the stack": (
        writes("Pulumi.dev.yaml", "config: {}\n"),
        ["new/Pulumi.dev.yaml: exists, and init never changes a file"],
    ),
    "a file as a folder of files": (writes("plugin", ""), ["new/plugin: is a file"]),
    "a link to a missing file": (
        lambda new: (new / "__main__.py").symlink_to("missing"),
        ["new/__main__.py: is a symbolic link to a missing file"],
    ),
    "a project that is not YAML": (writes("Pulumi.yaml", "a: [\n"), ["new/Pulumi.yaml: is not valid YAML"]),
    "a project in another language": (
        writes("Pulumi.yaml", "name: new\nruntime: nodejs\n"),
        ["new/Pulumi.yaml: is not the project of a Python program"],
    ),
    "a sandbox that is not YAML": (writes("sandbox.yaml", "\t- a\n"), ["new/sandbox.yaml: is not valid YAML"]),
    "several at once": (
        lambda new: (writes("plugin", "")(new), writes("Pulumi.yaml", "a: [\n")(new)),
        ["new/Pulumi.yaml: is not valid YAML", "new/plugin: is a file"],
    ),
}


@pytest.mark.parametrize(("prepare", "problems"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_what_is_in_the_way_is_reported_before_a_file_is_written(
    ask: Ask, tmp_path: Path, prepare: Prepare, problems: list[str]
) -> None:
    (tmp_path / "new").mkdir()
    prepare(tmp_path / "new")
    before = sorted(tmp_path.rglob("*"))
    answer = ask("init", "new", *GOOGLE, "--write")
    assert (answer.code, answer.out, sorted(tmp_path.rglob("*"))) == (2, "", before)
    assert [line for line in answer.err.splitlines() if line.startswith("new")] == problems


def test_missing_packages_are_one_problem_with_one_command(tmp_path: Path) -> None:
    """Without the package of an EKS pool, its fields are unknown, and the stack would also need a project."""
    hide = "import sys; sys.modules.update(dict.fromkeys(['pulumi_github', 'pulumi_kubernetes']))"
    code = f"{hide}; from gpu_ci.cli.main import main; main({['init', 'new', *AWS_ALONE, '--write']})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    problem, hint, end = answer.stderr.splitlines()
    assert (answer.returncode, problem) == (2, "gpu-ci init: needs pulumi_github and pulumi_kubernetes")
    assert hint.startswith("  hint: run pip install 'gpu-ci[aws,cli,github,kubernetes,preview,sandbox]")
    assert (end, written(tmp_path)) == ("nothing was written", [])


def test_the_steps_do_not_create_environments_that_exist(ask: Ask, tmp_path: Path) -> None:
    ask("init", "new", *SETS["google"], "--write")
    (tmp_path / "new" / ".venv-torch").mkdir()
    writes(".venv/bin/gpu-ci", "")(tmp_path / "new")
    steps = ask("init", "new", *SETS["google"], "--stack", "prod", "--json").json["next"]
    assert [step for step in steps if "venv " in step or "pip" in step] == []
    (tmp_path / "new" / "requirements.txt").write_text("gpu-ci[cli]\n")
    steps = ask("init", "new", *SETS["google"], "--stack", "prod", "--json").json["next"]
    assert [step.partition("   ")[0] for step in steps if "venv " in step or "pip" in step] == [
        ".venv/bin/pip install -r requirements.txt"
    ]


def copy_compiled(environment: Path) -> None:
    """Copy what Python has compiled for this checkout. It compiles a module again if the source differs."""
    [ours], [new] = site_packages(ROOT / ".venv"), site_packages(environment)
    for folder in ours.rglob("__pycache__"):
        compiled = new / folder.relative_to(ours)
        if compiled.parent.is_dir():
            shutil.copytree(folder, compiled, dirs_exist_ok=True)


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("chosen", "created", "runs_job"), [("google", 16, True), ("aws", 46, False), ("gke", 31, False)]
)
def test_a_new_repository_is_deployed_and_runs_a_job_without_an_edit(
    wheel: Path, tmp_path: Path, chosen: str, created: int, runs_job: bool
) -> None:
    """init, pip install, up, job: with a wheel, so that only the CLI and torch of the checkout are used."""
    uv = ROOT / ".tools" / "bin" / "uv"
    new = tmp_path / "new"
    command = [ROOT / ".venv" / "bin" / "gpu-ci", "init", new, *SETS[chosen], "--package", wheel.as_uri(), "--write"]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, new / ".venv"], check=True)
    python = new / ".venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, "-r", new / "requirements.txt"], check=True)
    copy_compiled(new / ".venv")
    (new / ".venv-torch").symlink_to(ROOT / ".venv-torch")
    (new / "sandbox.yaml").write_text(with_fake_torch((new / "sandbox.yaml").read_text()))
    environment = {name: value for name, value in os.environ.items() if name != "PULUMI_SANDBOX_DIR"}
    environment |= {"PULUMI_SANDBOX_ENGINE_DIR": str(ROOT / ".engine"), "NO_COLOR": "1"} | cheaper()

    def run(program: str, *words: str) -> str:
        command = [new / ".venv" / "bin" / program, *words, "--stack", "dev"]
        answer = subprocess.run(command, cwd=new, env=environment, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    stack_file = (new / "Pulumi.dev.yaml").read_bytes()
    assert f"+ {created} created" in run("pulumi-sandbox", "up", "--yes", "--skip-preview")
    if runs_job:
        assert "success" in run("gpu-ci", "job").splitlines()[-1]
        run("pulumi-sandbox", "destroy", "--yes")
    assert (new / "Pulumi.dev.yaml").read_bytes() == stack_file, "the salt of the sandbox is not in the file"
