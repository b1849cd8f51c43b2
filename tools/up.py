"""`make up`: deploys a stack in the sandbox.

On a terminal, it shows one live line for each pool, and writes the engine's output to a log. Without a terminal, or
with an argument for the engine (`make up ARGS=-v`), it shows the engine's output directly.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.live import Live
from rich.text import Text

from tools.install import ROOT

SANDBOX = ROOT / ".venv" / "bin" / "pulumi-sandbox"
FLAGS = ("--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress")
OTHERS = "others"
"""The name of the row for resources that belong to no pool."""
_COLOR = re.compile(r"<\{%[^%]*%\}>")
_RESULTS = {"create": "created", "update": "updated", "replace": "replaced", "delete": "deleted", "same": "unchanged"}


class Rows:
    """One row for each pool: the number of resources that are done, and the current operation."""

    def __init__(self, pools: list[str]) -> None:
        self._pools = sorted(pools, key=len, reverse=True)
        self._done: dict[str, Counter[str]] = {name: Counter() for name in [*sorted(pools), OTHERS]}
        self._current: dict[str, str] = {}
        self.warnings: dict[str, None] = {}

    def add(self, event: dict[str, Any]) -> None:
        """Update the rows with one event of the engine (sdk/go/common/apitype/events.go of pulumi/pulumi v3.259.0)."""
        if diagnostic := event.get("diagnosticEvent"):
            if diagnostic.get("severity") == "warning" and not diagnostic.get("ephemeral"):
                self.warnings[_COLOR.sub("", diagnostic["message"]).strip()] = None
            return
        for kind in ("resourcePreEvent", "resOutputsEvent", "resOpFailedEvent"):
            if kind in event:
                step = event[kind]["metadata"]
                name = step["urn"].rpartition("::")[2]
                self._step(name, step["op"], kind)

    def _step(self, name: str, operation: str, kind: str) -> None:
        pool = next((each for each in self._pools if name == each or name.startswith(f"{each}-")), OTHERS)
        if kind == "resourcePreEvent":
            self._current[pool] = f"{operation} {name}"
            return
        if self._current.get(pool, "").endswith(f" {name}"):
            del self._current[pool]
        if kind == "resOpFailedEvent":
            self._done[pool]["failed"] += 1
        elif operation in _RESULTS:
            self._done[pool][_RESULTS[operation]] += 1

    def text(self, *, ended: bool = False) -> Text:
        width = max(map(len, self._done))
        lines = []
        for name, done in self._done.items():
            counts = ", ".join(f"{number} {result}" for result, number in done.items()) or "waits"
            current = "" if ended or name not in self._current else f"; now: {self._current[name]}"
            lines.append(f"{name:<{width}}  {counts}{current}")
        return Text("\n".join(lines), overflow="ellipsis", no_wrap=True)


def main(arguments: list[str]) -> int:
    """Return the exit code of the sandbox."""
    stack, *engine_arguments = arguments
    command = [str(SANDBOX), "up", "--stack", stack, *FLAGS]
    if engine_arguments or not sys.stdout.isatty():
        # `-v` only selects the engine's own output, so it is not passed on.
        os.execv(command[0], [*command, *(each for each in engine_arguments if each != "-v")])  # noqa: S606
    (folder := ROOT / ".sandbox").mkdir(exist_ok=True)
    log, began = folder / f"up-{stack}.log", time.monotonic()
    # The terminal also sends Ctrl-C to the engine. The engine then ends cleanly, and this program waits for it.
    signal.signal(signal.SIGINT, lambda *_: None)
    with tempfile.NamedTemporaryFile() as events:
        rows = Rows(_pools(stack))
        code = _run([*command, "--event-log", events.name], log, Path(events.name), rows)
    if code:
        sys.stdout.write(log.read_text(errors="replace"))
        return code
    for text in rows.warnings:
        print(f"warning: {text}")
    print(f"done after {time.monotonic() - began:.0f} s; the engine's own output: {log.relative_to(ROOT)}\n")
    return 0


def _run(command: list[str], log: Path, events: Path, rows: Rows) -> int:
    environment = os.environ | {"PULUMI_DEBUG_COMMANDS": "true"}  # makes --event-log an option of the engine
    console = Console(highlight=False)
    with (
        log.open("wb") as output,
        events.open(encoding="utf-8", errors="replace") as lines,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment) as process,
        Live(rows.text(), console=console, refresh_per_second=4) as live,
    ):
        rest = ""
        while True:
            ended = process.poll() is not None  # before the read, so that the last events are read
            *complete, rest = (rest + lines.read()).split("\n")
            for line in complete:
                rows.add(json.loads(line))
            live.update(rows.text(ended=ended))
            if ended:
                return process.returncode
            time.sleep(0.2)


def _pools(stack: str) -> list[str]:
    """Return the names of the pools in the stack file, or none if it cannot be read, which the engine reports."""
    try:
        config = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]
        return [str(name) for name in config["gpu-ci:pools"]]
    except (OSError, ValueError, TypeError, LookupError, yaml.YAMLError):
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
