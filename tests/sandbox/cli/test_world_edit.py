"""`pulumi-sandbox world edit` next to secrets, which the world stores as digests, and with bytes that are not text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pulumi_sandbox.cli import own_commands
from pulumi_sandbox.cli.world_commands import world as command
from pulumi_sandbox.providers.secret_digests import digest_paths, hash_secrets
from pulumi_sandbox.world.store import Record, World

TEMPLATE = "gcp:compute/instanceTemplate:InstanceTemplate"
ID = "projects/p/global/instanceTemplates/t2"
INPUTS = {
    "machineType": "g2-standard-8",
    "metadata": {"tok": "hunter22", "plain": "x"},
    "disks": [{"boot": True}, {"diskEncryptionKey": {"kmsKeySelfLink": "a-secret-key"}}],
}
SECRETS = frozenset({("metadata", "tok"), ("disks", 1, "diskEncryptionKey", "kmsKeySelfLink")})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path))
    made = World(tmp_path / "world.db")
    stored = hash_secrets(INPUTS, SECRETS, made.key)
    made.insert(Record(TEMPLATE, ID, "t2", f"urn:pulumi:dev::ci::{TEMPLATE}::t2", stored, stored))
    yield made
    made.close()


def edit(*changes: str, code: int = 0) -> Result:
    result = CliRunner().invoke(command, ["edit", "t2", *changes])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def row(world: World) -> Record:
    found = world.get(TEMPLATE, ID)
    assert found is not None
    return found


def test_what_is_below_a_secret_cannot_be_changed(world: World) -> None:
    before = row(world)
    assert edit("metadata.tok.sub=1", code=1).output == (
        f"Error: world: {ID}: metadata.tok.sub: metadata.tok is a secret; the world stores only its digest\n"
        "  hint: replace the whole secret: metadata.tok=VALUE\n"
    )
    assert row(world) == before


@pytest.mark.parametrize(
    ("change", "secret"),
    [
        ('metadata={"tok":"new"}', "metadata.tok"),
        ("disks=[]", "disks[1].diskEncryptionKey.kmsKeySelfLink"),
        ("disks[1]={}", "disks[1].diskEncryptionKey.kmsKeySelfLink"),
    ],
)
def test_what_a_secret_is_in_cannot_be_replaced(world: World, change: str, secret: str) -> None:
    before = row(world)
    path = change.partition("=")[0]
    assert edit(change, code=1).output == (
        f"Error: world: {ID}: {path}: the value contains secrets, of which the world stores only digests: {secret}\n"
        f"  hint: change each property by its own path, such as {secret}=VALUE\n"
    )
    assert row(world) == before


def test_a_secret_itself_what_is_beside_it_and_all_of_it_can_be_changed(world: World) -> None:
    before = row(world)
    edit("metadata.tok=another", "metadata.plain=y")
    after = row(world)
    assert after.inputs["metadata"]["plain"] == "y"
    assert after.inputs["metadata"]["tok"] != before.inputs["metadata"]["tok"]
    assert ("metadata", "tok") in digest_paths(after.inputs)
    assert "another" not in str(after)
    edit("metadata=null")
    assert "metadata" not in {**row(world).inputs, **row(world).outputs}


def test_a_secret_that_only_the_inputs_have_is_guarded_too(world: World) -> None:
    world.update(TEMPLATE, ID, outputs={"machineType": "g2-standard-8"})
    before = row(world)
    assert "the value contains secrets" in edit('metadata={"tok":"new"}', code=1).output
    assert "is a secret" in edit("metadata.tok.sub=1", code=1).output
    assert row(world) == before


@pytest.mark.parametrize("words", [["edit", "t2", "machineType=\udcff"], ["break", "refuse", "--message", "\udcff"]])
def test_arguments_that_are_no_unicode_text_are_refused(
    world: World, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Python holds the byte 0xff of an argument as this half of a surrogate pair."""
    before = row(world)
    assert own_commands.run(["world", *words]) == 2
    shown = words[-1].replace("\udcff", r"\udcff")
    assert capsys.readouterr().err == (
        f"pulumi-sandbox: {shown}: is not Unicode text\n  expected: arguments in UTF-8\n"
    )
    assert (row(world), world.faults()) == (before, [])
