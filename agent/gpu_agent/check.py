"""Runs the smoke check: gpu_smoke from the machine's metadata, with a Python that has torch. Returns its verdict."""

from __future__ import annotations

import base64
import binascii
import shutil
from importlib.resources import files
from pathlib import Path

from .config import Config
from .machine.commands import TIMED_OUT, Machine
from .outcomes import AgentExit
from .report import Verdict

# gpu_smoke's exit codes (docs/reference/gpu-smoke.md) for a fault of a GPU, a problem of the environment, and a hang.
GPU, ENVIRONMENT, HANG = 1, 2, 4
# The file that names the installed torch version in its folder. It is written last, so it marks a complete
# installation.
_INSTALLED = ".gpu-agent-torch"
_NO_TORCH = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'


def check(config: Config, archive: str | None, machine: Machine, deadline: float) -> Verdict:
    """Return the verdict of gpu_smoke, or a fail with a reason if it could not run. `archive` is its zip in base64."""
    late = Verdict("fail", HANG, f"the check did not end within {config.check_sec} s of the boot", "check-hung")
    try:
        pyz = _unpacked(archive, machine.work)
        python = _python_in_container(config, machine, deadline) or _python(config, machine, deadline)
    except AgentExit as ended:
        if ended.end.reason == "stopped":
            raise
        if machine.clock.now() >= deadline:
            return late
        return Verdict("fail", ENVIRONMENT, ended.detail, ended.end.reason)
    message = machine.work / "message"
    message.unlink(missing_ok=True)  # of an earlier check
    done = machine.run(*python, str(pyz), *config.check_args, "--termination-log", str(message), deadline=deadline)
    if done.code == TIMED_OUT:
        return late
    reason = "check-hung" if done.code == HANG else "check-failed"
    # The first line of the message is the check's own sentence. A check that crashed writes no message.
    if message.exists() and (
        first_line := message.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    ):
        return Verdict("fail" if done.code else "pass", done.code, first_line, reason if done.code else "")
    summary = f"the check ended with code {done.code} and no message"
    if done.last:
        summary += f"; it last printed: {done.last}"
    # The check printed no message, so its last printed line is the best summary.
    # Python exits with the code of a fault after an exception.
    return Verdict("fail", ENVIRONMENT if done.code == GPU else done.code, summary, reason)


def _unpacked(archive: str | None, work: Path) -> Path:
    pyz = work / "gpu_smoke.pyz"
    try:
        content = base64.b64decode("".join((archive or "").split()), validate=True)
    except binascii.Error:
        content = b""
    if not content:
        raise AgentExit("no-config", "the machine's metadata has no readable gpu-smoke-pyz, which contains the check")
    pyz.write_bytes(content)
    return pyz


def _python_in_container(config: Config, machine: Machine, deadline: float) -> list[str]:
    """Return the interpreter of the container with torch, or an empty list without a container."""
    image = config.driver.image
    if not image:
        return []
    done = machine.run("docker", "pull", "--quiet", image, deadline=deadline)
    if done.code:
        raise AgentExit("check-failed", f"the container image of the check could not be downloaded: {done.last}")
    devices = sorted(str(path) for path in Path("/dev").glob("nvidia*") if path.is_char_device())
    # The arguments follow Google's page on GPUs on Container-Optimized OS.
    return [
        *("docker", "run", "--rm", "--network", "host"),
        *(f"--device={path}" for path in devices),
        *("--volume", f"{machine.work}:{machine.work}"),
        *("--volume", "/var/lib/nvidia/lib64:/usr/local/nvidia/lib64"),
        *("--volume", "/var/lib/nvidia/bin:/usr/local/nvidia/bin"),
        *("--env", "LD_LIBRARY_PATH=/usr/local/nvidia/lib64", image, "python3"),
    ]


# Another program, such as an upgrade in an image's first boot, may hold dpkg's lock for minutes
# (GoogleCloudPlatform/compute-image-packages#815). needrestart would ask which services to restart, or restart them.
_APT_GET = (
    "env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1",
    "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300",
)  # fmt: skip
# The pause between two runs of `apt-get update`. The option above covers only dpkg's lock; apt does not wait for the
# lock of the package lists (seen with apt 2.6.1).
_LOCK_SEC = 5.0
_LISTS_LOCKED = "Unable to lock directory"


def _python(config: Config, machine: Machine, deadline: float) -> list[str]:
    """Return the image's interpreter if it has torch, or one that this or an earlier boot installed."""
    # Only the presence of torch is tested. The check imports it once and reports the problem of a broken one.
    if machine.run("python3", "-c", _NO_TORCH, deadline=deadline).code == 0:
        return ["python3"]
    # Torch is installed on the machine's disk. The download takes minutes, and a machine on standby needs torch again.
    home = (machine.state if machine.takes_runners else machine.work) / "torch"
    python = str(home / "bin" / "python")
    if _text(home / _INSTALLED) == config.torch and machine.run(python, "-c", _NO_TORCH, deadline=deadline).code == 0:
        machine.say(f"gpu-ci: the image has no torch; torch {config.torch} was installed by an earlier boot")
        return [python]
    if not config.installs:
        raise AgentExit("check-failed", f"the image has no torch {config.torch}, and this machine installs nothing")
    machine.say(f"gpu-ci: the image has no torch; installing torch {config.torch}")
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    made = machine.run("python3", "-m", "venv", str(home), deadline=deadline)
    if made.code:
        for command in (
            (*_APT_GET, "update"),
            (*_APT_GET, "install", "-y", "python3-venv"),
            ("python3", "-m", "venv", str(home)),
        ):
            made = machine.run(*command, deadline=deadline)
            while made.code and _LISTS_LOCKED in made.last and machine.clock.now() < deadline:
                machine.clock.sleep(_LOCK_SEC)
                made = machine.run(*command, deadline=deadline)
            if made.code:
                raise AgentExit("check-failed", f"the environment for torch could not be created: {made.last}")
    for install_command in _install_commands(config.torch, home / "bin", machine.work):
        done = machine.run(*install_command, deadline=deadline)
        if done.code:
            why = f"torch {config.torch} could not be installed: {done.last}; the network may lack internet access"
            raise AgentExit("check-failed", why)
    (home / _INSTALLED).write_text(config.torch)
    return [python]


def _text(file: Path) -> str:
    """Return the content of the file, or "" if it cannot be read."""
    try:
        return file.read_text()
    except (OSError, ValueError):
        return ""


def _install_commands(torch: str, folder: Path, work: Path) -> list[list[str]]:
    """Return the commands that install torch. uv installs a version such as 2.7.0+cu126 from an index of PyTorch.

    The hashes of the default version and of uv are in locks. No hash of another version is known here. Without source
    archives, no program of a package runs before the check imports it.
    """
    python, wheels = f"{folder}/python", ["--only-binary", ":all:"]
    pip = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", *wheels]
    version, plus, cuda = torch.partition("+")
    if f"torch=={torch} " in _lock("torch.lock"):
        return [[*pip, "--require-hashes", "-r", _written("torch.lock", work)]]
    if not plus:
        return [[*pip, f"torch=={version}"]]
    uv = [f"{folder}/uv", "pip", "install", "--quiet", "--no-cache", *wheels, "--python", python]
    return [
        [*pip, "--require-hashes", "-r", _written("uv.lock", work)],
        [*uv, "--torch-backend", cuda, f"torch=={version}"],
    ]


def _lock(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _written(name: str, folder: Path) -> str:
    """Write a lock, which may be inside the zip of the agent, to a file for pip. Return its path."""
    (folder / name).write_text(_lock(name))
    return str(folder / name)
