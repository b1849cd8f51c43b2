"""Tests, with the real engine, that a head cannot change the policies and the base that it is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.compare.compare import Request, compare
from gpu_preview.environment.packages import Packages
from gpu_preview.errors import PreviewError
from gpu_preview.git.repository import Repository
from gpu_preview.model import Report

from tests.conftest import ROOT
from tests.preview import small
from tests.preview.repository import commit, git

PACK = """
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy
def judge(args, report):
    if args.props.get("location") == "US":
        report("no buckets in the US")
PolicyPack("p", [ResourceValidationPolicy("no-us", "no us", judge, enforcement_level=EnforcementLevel.MANDATORY)])
"""
IN_US = small.BUCKET.replace("EU", "US")

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.usefixtures("policy_python")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return small.repository(tmp_path / "repository")


def with_policies(repository: Path) -> None:
    """Commit a pack. Its environment exists, but is not committed."""
    (repository / "policies").mkdir()
    (repository / "policies" / "PulumiPolicy.yaml").write_text(
        "runtime: {name: python, options: {virtualenv: ../.venv-policy}}\n"
    )
    (repository / "policies" / "__main__.py").write_text(PACK)
    (repository / ".gitignore").write_text(".venv\n.venv-policy\n.sandbox\n__pycache__\n")
    commit(repository, "policies")
    Packages(ROOT, ROOT / "policies").provide_environment(repository)


def ask(repository: Path, *packs: Path) -> Report:
    return compare(Request(base="main", head="change", packs=packs), Repository.find(repository), lambda _: None)


@pytest.mark.slow
def test_a_head_changes_neither_its_policies_nor_what_its_next_stack_is_compared_with(repository: Path) -> None:
    """The pull request branches off before the policy is added, and its first stack changes the state of the second."""
    (repository / "Pulumi.dev.yaml").rename(repository / "Pulumi.aa.yaml")
    (repository / "Pulumi.zz.yaml").write_text((repository / "Pulumi.aa.yaml").read_text())
    commit(repository, "two stacks")
    program = f"""{IN_US}
import os, pulumi
from pathlib import Path
if pulumi.get_stack() == "aa":
    for state in Path(os.environ["PULUMI_SANDBOX_DIR"]).rglob("*zz*.json"):
        state.write_text(state.read_text().replace('"EU"', '"US"'))
"""
    small.change(repository, program)
    with_policies(repository)
    report = ask(repository, repository / "policies")
    assert {stack.stack: stack.counts.replace for stack in report.stacks} == {"aa": 1, "zz": 1}
    assert [each.policy for stack in report.stacks for each in stack.violations] == ["no-us", "no-us"]
    assert report.exit_code == 4


@pytest.mark.usefixtures("no_engine")
def test_a_head_with_a_submodule_at_the_path_of_the_policies_is_refused(repository: Path) -> None:
    with_policies(repository)
    git(repository, "checkout", "-q", "-b", "change")
    git(repository, "rm", "-rq", "policies")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},policies")
    git(repository, "commit", "-qm", "a submodule")
    git(repository, "checkout", "-q", "-f", "main")
    with pytest.raises(
        PreviewError,
        match=r"^policies: these policies are not files .*\n  got: a submodule at policies in the head\n",
    ):
        ask(repository, repository / "policies")


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Pulumi.yaml", b'name: "\\ud800"', "Pulumi.yaml has a NUL character or an unpaired surrogate"),
        ("Pulumi.yaml", b"name: [", "Pulumi.yaml is not valid YAML"),
        (
            "Pulumi.yaml",
            b"name: small\nruntime: python\nstackConfigDir: " + b"a" * 300,
            "stackConfigDir of Pulumi.yaml",
        ),
        (
            "Pulumi.dev.yaml",
            b"config:\n  ? a:" + b"b" * 2_000 + b"\n  : {secure: x}\n",
            "Pulumi.dev.yaml: has a secret",
        ),
    ],
)
def test_a_head_with_unreadable_files_is_refused_with_a_message(
    repository: Path, name: str, text: bytes, expected: str
) -> None:
    git(repository, "checkout", "-q", "-b", "change")
    (repository / name).write_bytes(text)
    commit(repository, "change")
    git(repository, "checkout", "-q", "-f", "main")
    with pytest.raises((PreviewError, PreviewError), match=expected):
        ask(repository)


@pytest.mark.usefixtures("no_engine")
def test_a_head_whose_project_is_a_link_to_itself_is_refused_with_a_message(repository: Path) -> None:
    (repository / "infra").mkdir()
    (repository / "Pulumi.yaml").rename(repository / "infra" / "Pulumi.yaml")
    commit(repository, "a folder")
    git(repository, "checkout", "-q", "-b", "change")
    git(repository, "rm", "-q", "infra/Pulumi.yaml")
    (repository / "infra").symlink_to("infra")
    commit(repository, "change")
    git(repository, "checkout", "-q", "-f", "main")
    with pytest.raises(PreviewError, match=r"^head \([0-9a-f]{10}\): infra is a symbolic link, or below one$"):
        ask(repository / "infra")


@pytest.mark.usefixtures("no_engine")
def test_a_fault_of_ours_in_the_heads_files_is_reported(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small.change(repository)

    def breaks(*_: object) -> str:
        raise RecursionError("too deep\x1b[2J")

    monkeypatch.setattr("gpu_preview.pulumi_files.why_not_comparable", breaks)
    pattern = r"^base and head cannot be read, which is a bug in gpu-ci: RecursionError: too deep\\u001b\[2J$"
    with pytest.raises(PreviewError, match=pattern):
        ask(repository)


BASE = """\
import pulumi
import pulumi_aws as aws
import pulumi_gcp as gcp

logs = gcp.storage.Bucket("logs", location="EU", labels={"k": pulumi.Output.secret("x")})
pulumi.export("url", logs.url)
pulumi.export("key", pulumi.Output.secret("y"))
"""
TABLE = """\
aws.dynamodb.Table("t", hash_key="a", attributes=[{"name": "a", "type": "S"}], billing_mode="PAY_PER_REQUEST")
"""
CONFIG = "  gcp:project: p\n  aws:region: us-east-1\n"


@pytest.mark.slow
def test_the_same_program_changes_nothing_although_one_output_is_unknown(tmp_path: Path) -> None:
    folder = small.repository(tmp_path / "same", BASE, CONFIG)
    small.change(folder, f"{BASE}# a comment\n")
    report = small.ask(folder)
    assert (report.exit_code, report.stacks[0].outputs) == (0, ())


@pytest.mark.slow
def test_secrets_that_are_plain_with_the_same_value_and_an_update_that_may_replace(tmp_path: Path) -> None:
    folder = small.repository(tmp_path / "plain", BASE + TABLE, CONFIG)
    program = (BASE + TABLE).replace('pulumi.Output.secret("x")', '"x"').replace('pulumi.Output.secret("y")', '"y"')
    small.change(folder, program.replace('hash_key="a"', 'hash_key="b"').replace('"name": "a"', '"name": "b"'))
    report = small.ask(folder)
    [stack] = report.stacks
    assert report.exit_code == 2
    assert (stack.counts.update, stack.counts.may_replace, stack.counts.same) == (2, 1, 0)
    replaced = "is updated or replaced: the sandbox does not know which of its properties force a replacement"
    assert [(each.rule, each.text) for each in stack.findings if each.severity == "danger"] == [
        ("secret-exposed", "Bucket logs: labels.k was secret and is plain now"),
        ("secret-exposed", "Stack outputs: key was secret and is plain now"),
        ("loses-data", f"Table t {replaced}; a replacement loses its items"),
    ]
    assert ("key", "[secret]", "[was secret, not shown]") in [(o.path, o.before, o.after) for o in stack.outputs]


@pytest.mark.slow
def test_a_stack_file_in_a_folder_of_its_own_is_the_one_that_is_read(tmp_path: Path) -> None:
    pools = "gpu-ci:pools: {l4: {kind: gce-runners, machineType: g2-standard-8, zones: [us-central1-a], max: %d}}"
    config = f"  gcp:project: acme-ci\n  {pools % 1}\n"
    folder = small.repository(tmp_path / "conf", small.BUCKET, config)
    git(folder, "checkout", "-q", "-B", "change")
    (folder / "conf").mkdir()
    (folder / "conf" / "Pulumi.dev.yaml").write_text(f"config:\n{config.replace('max: 1', 'max: 64')}")
    file = folder / "Pulumi.yaml"
    file.write_text(f"{file.read_text()}stackConfigDir: conf\n")
    commit(folder, "change")
    [stack] = small.ask(folder).stacks
    assert (stack.error, stack.file) == ("", "conf/Pulumi.dev.yaml")
    assert stack.cost
    assert stack.cost.before
    assert stack.cost.after
    assert stack.cost.before.at_max_usd_per_hour
    assert stack.cost.after.at_max_usd_per_hour == round(64 * stack.cost.before.at_max_usd_per_hour, 4)
