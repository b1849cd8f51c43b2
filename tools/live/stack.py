"""`make test-live`: deploys the pools of one stack file to a real account, checks them, and always destroys them.

    GPU_CI_LIVE_PROJECT=my-project make test-live                  one VM with a T4 in us-central1, and a network for it
    GPU_CI_LIVE_STACK_FILE=Pulumi.mine.yaml make test-live         the pools of a stack file of your own

It prints its plan and cost, and goes on only if GPU_CI_CONFIRM names the project or the clusters. The stack has a name
of its own, its state is in a temporary folder, and it is destroyed also after a failure or Ctrl-C. If the destruction
fails, the folder stays and the command that repeats it is printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from gpu_ci.cli.main import run as gpu_ci
from gpu_ci.kinds.gce.kind import KIND

from tools.live import RefusedError, require

ROOT = Path(__file__).resolve().parents[2]
PROJECT, STACK_FILE = "GPU_CI_LIVE_PROJECT", "GPU_CI_LIVE_STACK_FILE"

# The cheapest VM with a GPU that Compute Engine sells in most projects.
SMALLEST = {
    "kind": KIND.name,
    "machineType": "n1-standard-4",
    "guestAccelerator": {"type": "nvidia-tesla-t4"},
    "zones": ["us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f"],
    "market": "spot",
    "max": 1,
}


class FailedError(Exception):
    """A step failed. Its output has been printed."""


@dataclass
class Live:
    """One run: a stack of its own in a folder of its own."""

    file: Path
    folder: Path
    pulumi: Sequence[str] = ("pulumi",)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    stack: str = field(default_factory=lambda: f"live-{secrets.token_hex(4)}")

    def run(self) -> None:
        """Deploy, check, deploy again, destroy. FailedError after the destruction if a step failed."""
        began = time.monotonic()
        try:
            self._pulumi("stack", "init", self.stack)
            self._pulumi("up", "--yes", "--skip-preview", *self._stack_options())
            self._check_verdicts()
            print("test-live: a second up changes nothing", flush=True)
            self._pulumi("up", "--yes", "--skip-preview", "--expect-no-changes", *self._stack_options())
        finally:
            self._destroy()
            # `stack init` writes it next to Pulumi.yaml; the stack's configuration is in the run's folder.
            (ROOT / f"Pulumi.{self.stack}.yaml").unlink(missing_ok=True)
            print(f"test-live: {(time.monotonic() - began) / 60:.1f} minutes from start to end", flush=True)
        shutil.rmtree(self.folder)

    def _check_verdicts(self) -> None:
        outputs = json.loads(self._pulumi("stack", "output", "--json", "--stack", self.stack, capture=True))
        verdicts = {name: pool.get("verdict") for name, pool in outputs["pools"].items() if "verdict" in pool}
        print(f"test-live: verdicts: {json.dumps(verdicts)}", flush=True)
        if not verdicts or any(verdict != "pass" for verdict in verdicts.values()):
            raise FailedError("a pool did not pass its check, or none has one")

    def _destroy(self) -> None:
        print("test-live: destroying everything that was created", flush=True)
        try:
            self._pulumi("destroy", "--yes", "--skip-preview", *self._stack_options())
        except (FailedError, KeyboardInterrupt):
            # The empty passphrase belongs to this run. The passphrase of a user is in the environment, and not printed.
            passphrase = [] if "PULUMI_CONFIG_PASSPHRASE" in self.environment else ["PULUMI_CONFIG_PASSPHRASE=''"]
            again = " ".join([*passphrase, *self.pulumi, "destroy", *self._stack_options()])
            print(f"test-live: NOT DESTROYED. Its state is in {self.folder}", file=sys.stderr)
            print(f"  hint: PULUMI_BACKEND_URL='{self._backend}' {again}", file=sys.stderr, flush=True)
            raise

    @property
    def _backend(self) -> str:
        # Without attribute files: if the engine is killed while it writes one, the state can no longer be read.
        return f"file://{self.folder}?metadata=skip"

    def _stack_options(self) -> list[str]:
        return ["--stack", self.stack, "--config-file", str(self.file)]

    def _pulumi(self, *arguments: str, capture: bool = False) -> str:
        environment = {
            "PULUMI_CONFIG_PASSPHRASE": "",
            **self.environment,
            "PULUMI_BACKEND_URL": self._backend,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        with subprocess.Popen(
            [*self.pulumi, *arguments], cwd=ROOT, env=environment, text=True,
            stdout=subprocess.PIPE if capture else None,
        ) as process:  # fmt: skip
            output, interrupted = _wait_for(process)
        if interrupted:
            raise KeyboardInterrupt
        if process.returncode:
            raise FailedError(f"{' '.join([*self.pulumi, *arguments[:1]])} exits with {process.returncode}")
        return output


def _wait_for(process: subprocess.Popen[str]) -> tuple[str, bool]:
    """Wait for the end of a program. Return its output, and True if Ctrl-C was pressed before.

    The terminal sends Ctrl-C to the program too. `subprocess.run` would kill the program a quarter of a second later.
    A killed `pulumi up` leaves its stack locked and its state incomplete, so the stack could not be destroyed.
    """
    interrupted = False
    while True:
        try:
            return process.communicate()[0] or "", interrupted
        except KeyboardInterrupt:
            interrupted = True


def write_stack_file(environment: Mapping[str, str], folder: Path) -> Path:
    """Write the stack file of the run into its folder, and return it. RefusedError if no target is named."""
    copy = folder / "Pulumi.live.yaml"
    if environment.get(STACK_FILE) and environment.get(PROJECT):
        raise RefusedError(f"two targets\n  got: {PROJECT} and {STACK_FILE}\n  expected: one of them")
    if original := environment.get(STACK_FILE):
        try:
            text = Path(original).read_text(encoding="utf-8")
        except OSError as error:
            raise RefusedError(f"{original}: cannot be read\n  got: {error.strerror}\n  hint: {STACK_FILE}") from None
    elif project := environment.get(PROJECT):
        if not re.fullmatch(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", project):
            raise RefusedError(f"{PROJECT} is not the id of a project\n  got: {project}")
        text = yaml.safe_dump(
            {
                "config": {
                    "gcp:project": project,
                    "gpu-ci:site": {"networks": {"us-central1": {"ipRange": "10.250.0.0/24"}}},
                    "gpu-ci:pools": {"live": SMALLEST},
                }
            },
            sort_keys=False,
        )
    else:
        raise RefusedError(
            f"nothing to deploy\n  expected: {PROJECT} or {STACK_FILE}\n"
            f"  hint: {PROJECT}=my-project make test-live prints the plan first"
        )
    copy.write_text(text, encoding="utf-8")
    return copy


def targets(config: Mapping[str, Any]) -> str:
    """Return the names that the user must confirm: the project and the clusters."""
    names = [config.get("gcp:project"), *(config.get("gpu-ci:clusters") or {})]
    return ",".join(str(name) for name in names if name)


def plan(file: Path) -> str:
    """Return the plan and its cost from `gpu-ci check` and `gpu-ci cost`. Raise RefusedError for a mistake."""
    texts = []
    for command in ("check", "cost"):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = gpu_ci([command, str(file)])
        if code:
            raise RefusedError(err.getvalue().strip() or out.getvalue().strip())
        texts.append(out.getvalue().rstrip())
    return "\n\n".join(texts)


def main(environment: Mapping[str, str] = os.environ, pulumi: Sequence[str] = ("pulumi",)) -> int:
    """Return 0 if every pool passed and everything is destroyed, 1 if a step failed, or 2 if nothing was started."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-ci-live-"))
    try:
        file = write_stack_file(environment, folder)
        print(plan(file))
        print(
            "\nEach pool with a GPU costs one VM or node for the minutes of its check, at the price above. Networks and"
        )
        print("addresses are billed by the hour. Everything is destroyed at the end.\n", flush=True)
        require(targets(yaml.safe_load(file.read_text())["config"]), environment)
        if shutil.which(pulumi[0]) is None:
            raise RefusedError(f"{pulumi[0]} is not installed\n  hint: https://www.pulumi.com/docs/install/")
    except RefusedError as error:
        shutil.rmtree(folder)
        print(f"test-live: {error}", file=sys.stderr)
        return 2
    try:
        Live(file, folder, pulumi, environment).run()
    except FailedError as error:
        print(f"test-live: failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print("test-live: every pool passed its smoke check, and everything is destroyed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
