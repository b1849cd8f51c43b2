"""Runners and their jobs, as what the stand-in for GitHub's Listener does (runner.py)."""

from __future__ import annotations

from pathlib import Path

STAGE = Path("/run/test")
"""In it: `gpu` and `apps`, what nvidia-smi prints, and `go`, for which a job or a runner may wait."""
WAITS_FOR_GO = f"while not Path('{STAGE}/go').exists(): time.sleep(0.02)"
# What GitHub's runner does around a job, and a job that tries to get at the machine's identity.
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
    """A Listener that takes one job, which does this."""
    return _JOB.replace("DOES", does).replace("BEFORE", before)
