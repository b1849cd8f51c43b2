"""The file of a stack, and the messages after a command on a stack has failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pulumi_sandbox import stacks
from pulumi_sandbox.engine.model import Engine
from pulumi_sandbox.workspace import Workspace


class Setting:
    """A project with stack files, a state, and an engine that says one thing to everything."""

    def __init__(self, folder: Path, project: str = "Pulumi.yaml", settings: str = "") -> None:
        (folder / project).write_text(f"name: ci\nruntime: python\n{settings}")
        self.folder, self.messages = folder, list[str]()
        self.workspace = Workspace(folder / "sandbox", folder)
        (folder / "engine").mkdir()
        self.engine = Engine(folder / "engine", "3.259.0", "a test")
        self.answers("", 0)

    def answers(self, stderr: str, code: int) -> None:
        self.engine.executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{stderr}\nEND\nexit {code}\n")
        self.engine.executable.chmod(0o755)

    def file(self, name: str, text: str = "config: {}\n") -> None:
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)

    def known(self, stack: str) -> None:
        state = self.workspace.backend / ".pulumi" / "stacks" / "ci" / f"{stack}.json"
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text("{}")

    def explain(self, stack: str) -> list[str]:
        stacks.print_likely_cause(self.workspace, stack, self.messages.append)
        return self.messages

    def make(self, stack: str) -> list[str]:
        stacks.create_if_missing(self.workspace, self.engine, stack, {}, self.messages.append)
        return self.messages


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


@pytest.mark.parametrize(
    ("project", "settings", "file"),
    [
        ("Pulumi.yaml", "", "Pulumi.dev.yaml"),
        ("Pulumi.yml", "", "Pulumi.dev.yml"),
        ("Pulumi.yaml", "stackConfigDir: stacks\n", "stacks/Pulumi.dev.yaml"),
        ("Pulumi.yaml", "config: stacks\n", "stacks/Pulumi.dev.yaml"),
        ("Pulumi.yaml", "config: {a: {value: 1}}\n", "Pulumi.dev.yaml"),
    ],
)
def test_a_stacks_file_is_where_the_engine_has_it(tmp_path: Path, project: str, settings: str, file: str) -> None:
    setting = Setting(tmp_path, project, settings)
    setting.file(file)
    assert stacks.file_without_stack(setting.workspace, "org/ci/dev") == tmp_path / file
    setting.known("dev")
    assert stacks.file_without_stack(setting.workspace, "dev") is None


def test_a_stack_that_is_nowhere_is_answered_with_those_that_have_a_file(setting: Setting) -> None:
    setting.file("Pulumi.staging.yaml")
    setting.file("Pulumi.prod.yaml")
    setting.explain("prod")  # it has a file, so the engine's own message is enough
    setting.explain("stagin")
    setting.explain("org/ci/zzz")
    make = "run pulumi-sandbox stack init org/ci/zzz, or create an empty Pulumi.zzz.yaml"
    begin = "there is no Pulumi.{}.yaml and no such stack\n  expected: prod, staging\n  hint: {}"
    assert setting.messages == [
        f"stagin: {begin.format('stagin', 'did you mean staging?')}",
        f"org/ci/zzz: {begin.format('zzz', make)}",
    ]
    setting.known("zzz")
    assert len(setting.explain("zzz")) == 2, "one that is in the state needs no file"
