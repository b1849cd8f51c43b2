"""The program of a toy machine: it publishes a key, waits for its registration, and runs a runner for one job."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from gpu_agent.broker.registration import new_key_pair
from gpu_agent_sandbox import runner_listener


def main(folder: Path, name: str) -> None:
    pair = new_key_pair()
    key = {"machine": name, "certificate": base64.b64encode(pair.certificate).decode()}
    (folder / "key").write_text(json.dumps(key))
    registration = folder / "registration"
    while not registration.exists():
        time.sleep(0.1)
    message = json.loads(pair.open(base64.b64decode(registration.read_text())))
    for each in ("bin", "_diag"):
        (folder / "runner" / each).mkdir(parents=True)
    program = shutil.copy(runner_listener.__file__, folder / "runner" / "bin")
    environment = {**os.environ, runner_listener.JIT_VARIABLE: message["jitConfig"]}
    done = subprocess.run([sys.executable, program, "", "run"], env=environment, check=False)
    (folder / "end").write_text("runner-failed" if done.returncode else "job-done")


if __name__ == "__main__":
    main(Path(os.environ["TOY_MACHINE"]), os.environ["TOY_NAME"])
