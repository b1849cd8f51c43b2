"""Collects what remains of a machine after it is off, as JSON."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from gpu_agent.runner.session import without_updates

from tests.agent.fakes import google, runner
from tests.agent.fakes.scanner import Scanner

if TYPE_CHECKING:
    from tests.agent.fakes.whole_machine import RunningMachine


_PRIVATE = ("PRIVATE KEY", "RSA PRIVATE KEY")
_LINE_ENDS = ("\n", "\\n")


def found(running: RunningMachine, key: bytes, scanner: Scanner) -> dict[str, Any]:
    """Return the machine's output, the state of GitHub and Google, and the secrets that were found in any place."""
    cloud, github = running.google, running.github
    lines = key.decode().splitlines()
    planted = {
        "key": [*lines[1:-1], base64.b64encode(key).decode()[:64]],
        "machine's token": [google.TOKEN],
        "token": list(github.tokens),
        "JWT": [part for each in github.bearers if "." in each for part in (each, each.rpartition(".")[2])],
        "private key": [f"-----BEGIN {kind}-----{end}MII" for kind in _PRIVATE for end in _LINE_ENDS],
        "blob": [form for blob in github.blobs for form in (blob, without_updates(blob))],
        "credential": [runner.SECRET, runner.encoded(json.dumps({"token": runner.SECRET}))],
    }
    said = {
        "serial": running.serial,
        "attributes": json.dumps(cloud.published),
        "log": json.dumps(cloud.logged),
    }
    ends = [
        json.loads(line.split(" ", 1)[1]) for line in running.serial.splitlines() if line.startswith("GPU-AGENT-END ")
    ]
    verdicts = [line.split(" ", 1)[1] for line in running.serial.splitlines() if line.startswith("SMOKE-RESULT ")]
    findings = [each for each in scanner.findings(planted, said) if not is_of_this_computer(*each)]
    return {
        "serial": running.serial,
        "verdict": json.loads(base64.b64decode(verdicts[0])) if verdicts else None,
        "verdicts": len(verdicts),
        "end": ends[0] if ends else None,
        "ends": max(len(ends), len({value for name, value in cloud.published if name == "gpu-agent/end"})),
        "published": [json.loads(value)["reason"] for name, value in cloud.published if name == "gpu-agent/end"],
        "notices": [json.loads(value)["reason"] for name, value in cloud.published if name == "gpu-agent/notice"],
        "keys": len(cloud.keys()),
        "runners": len(github.runners),
        "registered": len(github.blobs),
        "asked of github": sorted(set(github.asked)),
        "secrets read": sum(":access" in each for each in cloud.asked),
        "leaked": [each for each in findings if not is_allowed(*each)],
        "allowed": sorted({(each.secret, each.kind) for each in findings if is_allowed(*each)}),
        "rounds": scanner.rounds,
        "off": running.serial.count("SHUTDOWN -h now"),
        "off by systemd": running.systemd.off,
        "hit": running.hit,
    }


def is_of_this_computer(secret: str, kind: str, where: str) -> bool:
    """Return True for a private key that was below /etc of this computer before. The machine has a copy of it."""
    return secret == "private key" and kind == "file" and where.startswith("/etc/")


def is_allowed(secret: str, kind: str, where: str) -> bool:
    """Return True for the two places that GitHub itself uses: its Listener's environment, and its root in memory."""
    if secret == "blob":
        return kind == "environ" and where.endswith("/run/gpu-agent/runner/bin/Runner.Listener run")
    return (secret, kind, where) == ("credential", "file", "/run/gpu-agent/runner/.credentials")
