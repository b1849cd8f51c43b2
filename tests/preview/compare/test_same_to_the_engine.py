"""Tests, with the real engine, of changes that it reports as `same` or `update`, and that matter to a reviewer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.preview import small
from tests.preview.repository import commit, git

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(300)]

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
    config = f"  gcp:project: p\n  {pools % 1}\n"
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
