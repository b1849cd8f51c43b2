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


@pytest.mark.parametrize(
    "path", ["metadata.tok", "metadata.tok.sub", "metadata", "disks", "disks[1]", "disks[1].diskEncryptionKey"]
)
@pytest.mark.parametrize("outputs", [None, {"machineType": "g2-standard-8"}])
def test_a_secret_cannot_be_changed(world: World, path: str, outputs: dict[str, str] | None) -> None:
    world.update(TEMPLATE, ID, outputs=outputs)
    before = row(world)
    assert edit(f"{path}=1", code=1).output == (
        f"Error: world: {ID}: {path}: has a secret, of which the world stores only a digest\n"
    )
    assert row(world) == before


def test_what_is_next_to_a_secret_can_be_changed(world: World) -> None:
    edit("metadata.plain=y", "disks[0].boot=false")
    after = row(world).inputs
    assert (after["metadata"]["plain"], after["disks"][0]) == ("y", {"boot": False})
    assert ("metadata", "tok") in digest_paths(after)


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
