"""Programs for the fake Listener of runner.py: runners and their jobs."""

from __future__ import annotations

from pathlib import Path

STAGE = Path("/run/test")
"""The folder with `gpu` and `apps`, which nvidia-smi prints, and with `go`, for which a job or a runner may wait."""
WAITS_FOR_GO = f"while not Path('{STAGE}/go').exists(): time.sleep(0.02)"
# What a runner does around a job, and a job that tries to reach the machine's identity.
_JOB = """
def hook(stage):
    known = {"GITHUB_REPOSITORY": "acme/kernels", "GITHUB_RUN_ID": "77", "GITHUB_JOB": "train"}
    return subprocess.run([os.environ["ACTIONS_RUNNER_HOOK_JOB_" + stage]], env={**os.environ, **known}).returncode
BEFORE
say("Running job: train")
if hook("STARTED"):
    end(1)
import socket
try:
    socket.create_connection(("169.254.169.254", 80), 2)
    say("JOB HAS THE IDENTITY")
except OSError as error:
    say("job: " + type(error).__name__)
time.sleep(0.3)
(root / "_diag" / "at-work").touch()
DOES
hook("COMPLETED")
end(0)
"""
WAITS = "signal.signal(signal.SIGINT, lambda *_: end(0))\nsay('ready')\nwhile True: time.sleep(0.05)"


def job(does: str = "", before: str = "") -> str:
    """Return a Listener that takes one job and does this."""
    return _JOB.replace("DOES", does).replace("BEFORE", before)
