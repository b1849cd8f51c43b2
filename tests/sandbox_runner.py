"""Runs the real CLI in a sandbox of the test's own and reads what it left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pulumi_sandbox.language_host.server import PLUGIN_GRACE

from tests import warm_program

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

# By default, the CLI writes the whole state before and after each resource: half of the CPU time of a test. Only the
# tests that kill it need that.
STATE_AT_THE_END = {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}
# What a command gets that runs as it does for users: the tests that kill it, and look for the processes that it leaves.
AS_FOR_USERS = {**dict.fromkeys(STATE_AT_THE_END, "false"), "PULUMI_SANDBOX_EXECUTOR": ""}


def cheaper() -> dict[str, str]:
    """The variables with which the commands of a sandbox do the same in less time."""
    return STATE_AT_THE_END | warm_program.environment()


@dataclass(frozen=True)
class Finished:
    """What a command printed (both streams, in order) and how it ended."""

    code: int
    output: str

    def has(self, *parts: str) -> bool:
        return all(part in self.output for part in parts)


@dataclass
class SandboxRunner:
    """`pulumi-sandbox` for one project with its own PULUMI_SANDBOX_DIR, so that tests run side by side."""

    project: Path
    folder: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *args: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
        env |= {"PULUMI_SANDBOX_DIR": str(self.folder), "NO_COLOR": "1"} | cheaper() | environment
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "pulumi-sandbox"), *args],
            cwd=self.project,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def run(self, *args: str, ok: bool = True, timeout_sec: int = 240, **environment: str) -> Finished:
        """Run a command to its end; with ok=True it must succeed, with ok=False it must not."""
        process = self.start(*args, **environment)
        output, _ = process.communicate(timeout=timeout_sec)
        finished = Finished(process.returncode, ANSI.sub("", output))
        assert (finished.code == 0) is ok, f"{args} ended with {finished.code}:\n{finished.output}"
        return finished

    def steps(self, *args: str, ok: bool = True, **environment: str) -> tuple[Finished, list[tuple[str, str]]]:
        """Run a command, and tell from the engine's events what it did to which resource, in this order."""
        log = self.folder / "events.json"
        log.unlink(missing_ok=True)
        # The CLI has the flag only for those who debug it.
        debug = {"PULUMI_DEBUG_COMMANDS": "true"}
        finished = self.run(*args, "--event-log", str(log), ok=ok, **debug, **environment)
        events = [json.loads(line) for line in log.read_text().splitlines()]
        ended = [event["resOutputsEvent"]["metadata"] for event in events if "resOutputsEvent" in event]
        # A provider of its own is configured anew when anything in the stack file changes; nobody is shown that.
        shown = [step for step in ended if "pulumi:providers:" not in step["urn"]]
        done = [
            (step["op"], step["urn"].rpartition("::")[2]) for step in shown if step["op"] not in ("same", "refresh")
        ]
        return finished, done

    def json(self, *args: str) -> Any:
        """Run a command that prints JSON on its standard output."""
        process = self.start(*args)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0, output
        return json.loads(output[min(i for i in (output.find("{"), output.find("[")) if i >= 0) :])

    def world(self) -> list[dict[str, Any]]:
        """Everything in the world."""
        return list(self.json("world", "list", "--json"))

    def stack_file(self, base: str, changes: dict[tuple[str, ...], Any]) -> Path:
        """A copy of a stack file with config values changed, each named by its path of keys."""
        document = yaml.safe_load((self.project / base).read_text())
        for (*parents, last), value in changes.items():
            target: Any = document["config"]
            for key in parents:
                target = target[key]
            target[last] = value
        self.folder.mkdir(parents=True, exist_ok=True)
        copy = self.folder / base
        copy.write_text(yaml.safe_dump(document, sort_keys=False))
        return copy

    def state(self, stack: str) -> list[dict[str, Any]]:
        """The resources in the stack's state, as the engine exports them (secrets stay encrypted)."""
        deployment = self.json("stack", "export", "--stack", stack)["deployment"]
        return list(deployment.get("resources", []))

    def processes(self) -> dict[int, str]:
        """The processes that carry this sandbox's folder in their environment: pid -> command line."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environment = (entry / "environ").read_bytes()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"PULUMI_SANDBOX_DIR={self.folder}".encode() + b"\0" in environment + b"\0" and command:
                found[int(entry.name)] = command.strip()
        return found

    def gone(self, within_sec: float = PLUGIN_GRACE + 15) -> dict[int, str]:
        """Wait until no process of this sandbox is left; returns those that stayed.

        A plugin whose engine was killed has its grace to delete the machine that it had started.
        """
        until = time.monotonic() + within_sec
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.2)
        return left

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout:
                process.stdout.close()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What it prints up to the line with this text."""
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if text in line:
            return output
    raise AssertionError(f"ended without {text!r}:\n{output}")
