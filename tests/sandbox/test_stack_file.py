"""The stack's file, which real deployments use too, when a stack of the sandbox is removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pulumi_sandbox import passthrough, plugins
from pulumi_sandbox.cli import main
from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import VERSION, Engine

KEPT = "pulumi-sandbox: stack rm keeps the stack's file; --preserve-config=false deletes it too\n"


@pytest.mark.parametrize(
    ("words", "passed", "expected"),
    [
        ("stack rm dev", "stack rm dev --preserve-config", KEPT),
        ("stack -s dev rm --yes", "stack -s dev rm --yes --preserve-config", KEPT),
        ("stack rm -- dev --preserve-config", "stack rm --preserve-config -- dev --preserve-config", KEPT),
        ("stack delete -y", "stack delete -y --preserve-config", KEPT.replace(" rm ", " delete ")),
        ("stack remove dev", "stack remove dev --preserve-config", KEPT.replace(" rm ", " remove ")),
        ("stack rm dev --preserve-config", "stack rm dev --preserve-config", ""),
        ("stack rm dev --preserve-config=false", "stack rm dev --preserve-config=false", ""),
        ("stack rm --help", "stack rm --help", ""),
        ("stack ls", "stack ls", ""),
        ("config rm key", "config rm key", ""),
    ],
)
def test_removing_a_stack_keeps_its_file_unless_the_user_says_otherwise(
    words: str, passed: str, expected: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    ran: list[list[str]] = []
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(locate, "ensure", lambda _: Engine(tmp_path, VERSION, "path"))
    monkeypatch.setattr(plugins, "install", lambda _: {})
    monkeypatch.setattr(passthrough, "run", lambda _, given, __: ran.append(given) or 0)
    assert main.run(words.split()) == 0
    assert (ran, capsys.readouterr().err) == ([passed.split()], expected)
