"""Runs the steps of a composite action as GitHub's runner would, as far as they are scripts."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")


@dataclass
class Job:
    """What a job has: a workspace, a folder for temporary files, and the variables that GitHub sets."""

    workspace: Path
    temp: Path
    variables: dict[str, str] = field(default_factory=dict)
    merge_group_base: str = ""
    """What a merge queue merges into, such as refs/heads/main; empty where the event is another one."""

    def run(self, action: Path, **inputs: str) -> tuple[int, str, dict[str, str]]:
        """The exit code, what was printed, and the outputs of the steps; `-` in a name of an input is `_` here."""
        described: dict[str, Any] = yaml.safe_load((action / "action.yml").read_text())
        given = {name: str(one.get("default", "")) for name, one in described["inputs"].items()}
        named = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert named.keys() <= given.keys()
        values = given | named
        output = self.temp / "github_output"
        printed = ""
        for step in described["runs"]["steps"]:
            assert "${{" not in step["run"], "a part of a script is code"
            environment = {
                **os.environ,
                "GITHUB_ACTIONS": "true",
                "GITHUB_ACTION_PATH": str(action),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(self.temp / "summary"),
                "GITHUB_WORKSPACE": str(self.workspace),
                "RUNNER_TEMP": str(self.temp),
                **self.variables,
                **{name: self._text(value, values) for name, value in step["env"].items()},
            }
            assert step["shell"] == "bash"
            script = self.temp / "step.sh"
            script.write_text(step["run"])
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=self.workspace / self._text(step.get("working-directory", "."), values),
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
            )  # fmt: skip
            printed += done.stdout
            if done.returncode:
                break
        lines = output.read_text().splitlines() if output.is_file() else []
        return done.returncode, printed, dict(line.split("=", 1) for line in lines)

    def _text(self, value: str, inputs: dict[str, str]) -> str:
        text = _INPUT.sub(lambda found: inputs[found[1]], value)
        text = text.replace("${{ github.event.merge_group.base_ref }}", self.merge_group_base)
        assert "${{" not in text.replace("${{ github.token }}", ""), f"{value}: this runner knows inputs alone"
        return text
