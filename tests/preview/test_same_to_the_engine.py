"""What the engine calls the same, or an update, and a reviewer would not: by the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.preview import small

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

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


def test_a_program_that_is_the_same_changes_nothing_though_nobody_knows_one_of_its_outputs(tmp_path: Path) -> None:
    folder = small.repository(tmp_path / "same", BASE, CONFIG)
    small.change(folder, f"{BASE}# a comment\n")
    report = small.ask(folder)
    assert (report.exit_code, report.stacks[0].outputs) == (0, ())


def test_secrets_that_are_plain_with_the_same_value_and_an_update_that_may_replace(tmp_path: Path) -> None:
    folder = small.repository(tmp_path / "plain", BASE + TABLE, CONFIG)
    program = (BASE + TABLE).replace('pulumi.Output.secret("x")', '"x"').replace('pulumi.Output.secret("y")', '"y"')
    small.change(folder, program.replace('hash_key="a"', 'hash_key="b"').replace('"name": "a"', '"name": "b"'))
    report = small.ask(folder)
    [stack] = report.stacks
    assert report.exit_code == 2
    assert (stack.counts.update, stack.counts.may_replace, stack.counts.same) == (2, 1, 0)
    replaced = "is updated, or replaced: no table of the sandbox knows which of its properties can be changed"
    assert [(each.rule, each.text) for each in stack.findings if each.severity == "danger"] == [
        ("secret-exposed", "Bucket logs: labels.k was secret and is plain now"),
        ("secret-exposed", "Stack outputs: key was secret and is plain now"),
        ("loses-data", f"Table t {replaced}; a replacement loses its items"),
    ]
    assert ("key", "[secret]", "[was secret, not shown]") in [(o.path, o.before, o.after) for o in stack.outputs]
