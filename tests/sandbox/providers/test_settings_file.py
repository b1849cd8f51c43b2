"""An invalid sandbox.yaml is reported by the command itself, before any provider runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pulumi_sandbox import passthrough, plugins
from pulumi_sandbox.cli import main
from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import VERSION, Engine


@pytest.mark.parametrize(
    ("words", "refused"),
    [("up", True), ("preview", True), ("dn --yes", True), ("up --help", False), ("stack ls", False)],
)
def test_a_typo_in_sandbox_yaml_is_reported_before_anything_is_run(
    words: str, refused: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[list[str]] = []
    (tmp_path / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    (tmp_path / "sandbox.yaml").write_text("gest: {}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path / "sandbox"))
    monkeypatch.setattr(locate, "ensure", lambda _: Engine(tmp_path, VERSION, "path"))
    monkeypatch.setattr(plugins, "install", lambda _: {})
    monkeypatch.setattr(passthrough, "run", lambda _, given, __: ran.append(given) or 0)
    assert main.run(words.split()) == int(refused)
    expected = (
        "sandbox.yaml: gest: no such entry\n  expected: guest, exists, github, lookups, values\n"
        "  hint: did you mean 'guest'?\n"
    )
    assert (ran, capsys.readouterr().err) == (([], expected) if refused else ([words.split()], ""))
