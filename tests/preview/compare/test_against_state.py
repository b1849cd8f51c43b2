"""Tests of a preview against the exported state of a stack, instead of the deployed base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.compare.compare import Request, compare
from gpu_preview.errors import PreviewError
from gpu_preview.git.repository import Repository
from gpu_preview.model import Report, Status
from gpu_preview.report import markdown

from tests.preview import small
from tests.preview.repository import commit, git
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

DEPLOYED_KEY = "deployed-key-5d8e"
PROGRAM = """
import pulumi
import pulumi_gcp as gcp

key = pulumi.Config("app").require_secret("key")
secret = gcp.secretmanager.Secret("key", secret_id="key", replication={"auto": {}})
gcp.secretmanager.SecretVersion("key", secret=secret.id, secret_data=key)
gcp.storage.Bucket("logs", location="EU", labels={"of": key})
gcp.storage.Bucket("kept", location="EU", labels={"of": "us"})
pulumi.export("key", key)
"""


def against(folder: Path, state: Path, head: str = "change", stack: str = "dev") -> Report:
    request = Request(base="main", head=head, states={stack: state})
    return compare(request, Repository.find(folder), lambda _: None)


@pytest.fixture
def deployed(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Return a repository and the exported state of its stack, with the key in plain text, as with --show-secrets."""
    folder = small.repository(tmp_path / "repository", PROGRAM)
    runner = SandboxRunner(project=folder, folder=tmp_path / "sandbox")
    runner.run("config", "set", "--stack", "dev", "--secret", "app:key", DEPLOYED_KEY)
    runner.run("up", "--stack", "dev", "--yes", "--skip-preview", "--non-interactive")
    exported = json.loads(runner.run("stack", "export", "--stack", "dev", "--show-secrets").output)
    assert DEPLOYED_KEY in json.dumps(exported)
    # The stack file of the repository has the key encrypted by a key service, which no test calls.
    (folder / "Pulumi.dev.yaml").write_text(
        "secretsprovider: gcpkms://projects/p/locations/global/keyRings/k/cryptoKeys/k\nencryptedkey: AAAA\n"
        "config:\n  gcp:project: p\n  app:key: {secure: v1:AAAA}\n"
    )
    commit(folder, "the key of the key service")
    return folder, exported


def written(folder: Path, state: Mapping[str, Any]) -> Path:
    file = folder / "prod state.json"
    file.write_text(json.dumps(state))
    return file


@pytest.mark.slow
def test_only_what_differs_from_the_deployed_is_reported_and_secrets_are_taken_for_unchanged(
    deployed: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, exported = deployed
    # Another user has deployed another label, an update was interrupted, and the state has a default, as a provider
    # writes it.
    text = json.dumps(exported).replace('"of": "us"', '"of": "them"')
    state = json.loads(text)
    for each in state["deployment"]["resources"]:
        if each["urn"].endswith("Bucket::kept"):
            each["inputs"] |= {"forceDestroy": False, "__defaults": [*each["inputs"]["__defaults"], "forceDestroy"]}
            state["deployment"]["pending_operations"] = [{"resource": each, "type": "updating"}]
    small.change(folder, PROGRAM)
    report = against(folder, written(tmp_path, state))
    [stack] = report.stacks
    assert stack.error == ""
    assert (report.how, stack.status, stack.state) == ("state", Status.PREVIEWED, "prod state.json")
    changed = [(each.name, each.operation.value, [p.path for p in each.properties]) for each in stack.changed]
    assert changed == [("kept", "update", ["labels.of"])]
    [change] = stack.changed[0].properties
    assert (change.before, change.after) == ('"them"', '"us"')
    assert stack.counts.same == 3
    assert report.exit_code == 2
    seen = report.model_dump_json() + markdown.render(report)
    assert DEPLOYED_KEY not in seen
    assert "placeholder-of" not in seen
    assert (
        "Compared with the exported state `prod state.json`, assuming that its secrets are unchanged."
        in markdown.render(report)
    )


@pytest.mark.slow
def test_a_secret_that_loses_its_encryption_is_still_a_change(
    deployed: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, exported = deployed
    small.change(folder, PROGRAM.replace('require_secret("key")', 'require("key")', 1))
    [stack] = against(folder, written(tmp_path, exported)).stacks
    assert stack.error == ""
    assert {each.name: each.operation.value for each in stack.changed} == {"logs": "update"}


def state_of(*names: str, stack: str = "dev", project: str = "small") -> dict[str, Any]:
    """Return an exported state with these buckets."""
    urn = f"urn:pulumi:{stack}::{project}::gcp:storage/bucket:Bucket::"
    resources = [{"urn": urn + name, "type": "gcp:storage/bucket:Bucket"} for name in names]
    return {"version": 3, "deployment": {"resources": resources}}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return small.repository(tmp_path / "repository")


@pytest.mark.usefixtures("no_engine")
def test_the_resources_of_a_removed_stack_file_are_listed(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "-q", "-f", "-B", "gone", "main")
    (repository / "Pulumi.dev.yaml").unlink()
    commit(repository, "no dev any more")
    git(repository, "checkout", "-q", "-f", "main")
    [stack] = against(repository, written(tmp_path, state_of("kept", "logs")), head="gone").stacks
    assert stack.status == Status.REMOVED
    assert [each.name for each in stack.resources] == ["kept", "logs"]


@pytest.mark.usefixtures("no_engine")
def test_states_that_cannot_be_taken_are_all_named(repository: Path, tmp_path: Path) -> None:
    file = written(tmp_path, state_of("logs"))
    request = Request(base="main", head="main", states={"dev": tmp_path / "missing", "prod": file})
    with pytest.raises(PreviewError) as caught:
        compare(request, Repository.find(repository), lambda _: None)
    assert str(caught.value) == (
        f"{tmp_path / 'missing'}: No such file or directory\n  hint: pulumi stack export --stack dev > state.json\n"
        f"{file}: is the state of another stack\n  got: dev\n  expected: prod"
    )
