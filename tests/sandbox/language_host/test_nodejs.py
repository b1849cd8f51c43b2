"""The Node.js language host: what it finds in node_modules, and how it starts a program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import language_pb2 as lp
from pulumi_sandbox.language_host.host import serve
from pulumi_sandbox.language_host.nodejs import NodejsHost

from tests.sandbox.language_host.hosts import Stub, info, script


@pytest.fixture
def nodejs() -> Iterator[Stub]:
    servicer = NodejsHost("127.0.0.1:1")
    server, port = serve(servicer)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Stub(channel)
    servicer.close(patience=5)
    server.stop(None).wait()


def npm_package(program: Path, name: str, **content: Any) -> None:
    file = program / "node_modules" / name / "package.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"name": name, **content}))


def test_sdks_in_node_modules_are_reported(nodejs: Stub, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", raising=False)
    npm_package(program, "@pulumi/pulumi", version="3.259.0")
    npm_package(program, "@pulumi/random", version="4.1.0", pulumi={"resource": True})
    npm_package(program, "@acme/own", version="1.0.0", pulumi={"resource": True, "name": "own", "version": "v2.0.0"})
    npm_package(program, "typescript", version="5.9.3", pulumi={"resource": False})
    (program / "node_modules" / "broken").mkdir()
    (program / "node_modules" / "broken" / "package.json").write_text("{")
    asked = lp.GetRequiredPackagesRequest(info=info(program))
    assert [(found.name, found.version) for found in nodejs.GetRequiredPackages(asked).packages] == [
        ("own", "2.0.0"),
        ("random", "4.1.0"),
    ]
    monkeypatch.setenv("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
    monkeypatch.setenv("PULUMI_HOME", str(program / "home"))
    assert list(nodejs.GetRequiredPackages(asked).packages) == []


def test_a_program_gets_its_configuration_and_its_exit_code_is_reported(
    nodejs: Stub, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = 'if [ "$1" = -e ]; then echo /sdk/run; exit; fi\nprintf "%s\\n" "$PULUMI_CONFIG" "$@" > got; exit '
    monkeypatch.setenv("PATH", f"{program / 'bin'}:/usr/bin:/bin")
    request = lp.RunRequest(info=info(program, nodeargs="--no-deprecation"), config={"gcp:project": "acme"})
    for code, error, bail in ((0, "", False), (32, "", True), (7, "program exited with non-zero exit code: 7", False)):
        script(program / "bin" / "node", f"{node}{code}")
        answer = nodejs.Run(request)
        assert (answer.error, answer.bail) == (error, bail)
    lines = (program / "got").read_text().splitlines()
    assert json.loads(lines[0]) == {"gcp:config:project": "acme"}
    assert lines[1:4] == ["--no-deprecation", "/sdk/run", "--engine"]


def test_a_missing_node_and_a_missing_sdk_are_reported(
    nodejs: Stub, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program / "bin"))
    request = lp.RunRequest(info=info(program))
    assert nodejs.Run(request).error.startswith("there is no `node` on PATH\n  expected: Node.js 22 or newer")
    script(program / "bin" / "node", "exit 1")
    assert "the npm package @pulumi/pulumi is not installed\n  hint: run `npm install`" in nodejs.Run(request).error
