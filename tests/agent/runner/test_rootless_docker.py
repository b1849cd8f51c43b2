"""Docker as the runner's user, with stubs of Docker's programs: how it is started, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.clock import Clock
from gpu_agent.machine.system import System
from gpu_agent.outcomes import AgentExit
from gpu_agent.runner.network_isolation import start_rootless_docker

from tests.agent.fakes import machine

# Each stub comes first in the agent's PATH. The engine records how it was started, starts its network, and stays on.
ENGINE = """#!/bin/sh
env > "$HOME/env"
id -u > "$HOME/uid"
{network}
touch "$XDG_RUNTIME_DIR/up"
exec sleep 300
"""
# A copy of bash gets this name, because a script would be listed under its interpreter's name. It runs before the
# engine answers.
NETWORK = """slirp4netns -c 'sleep 300; true' - --disable-host-loopback 4242 tap0 &
until grep -q ^slirp4netns /proc/$!/cmdline; do sleep 0.02; done"""
DOCKER = '#!/bin/sh\ntest -e "$XDG_RUNTIME_DIR/up" || { echo "Cannot connect"; exit 1; }\necho "%s"\n'


def install(engine: str = ENGINE.format(network=NETWORK), options: str = "[name=seccomp name=rootless]") -> None:
    """Install the programs on the emulated machine."""
    folder = Path("/usr/local/sbin")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", str(folder)], check=True)
    scripts = {
        "dockerd-rootless.sh": engine,
        "docker": DOCKER % options,
        **dict.fromkeys(("dockerd", "newuidmap", "newgidmap"), "#!/bin/sh\n"),
    }
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    shutil.copy(str(shutil.which("bash")), folder / "slirp4netns")


def start(seconds: float = 60) -> dict[str, Any]:
    """Return the result of start_rootless_docker(), or the reason and detail of its failure."""
    clock, system = Clock(), System(run_folder=Path("/run/gpu-agent"))
    user = system.runner_user()
    try:
        return {"given": dict(start_rootless_docker(user, system, clock, clock.now() + seconds)), "said": ""}
    except AgentExit as ended:
        return {"said": str(ended)}
    finally:
        system.kill_all_of(user, clock, clock.now() + 20)


def lent(kind: str) -> list[str]:
    return [line for line in Path(f"/etc/sub{kind}").read_text().splitlines() if line.startswith("gpu-runner:")]


def test_the_engine_runs_as_the_user_with_a_network_that_the_rules_cover() -> None:
    def work() -> dict[str, Any]:
        install()
        Path("/etc/subuid").write_text("somebody:100000:65536\n")
        Path("/etc/subgid").write_text("")
        said = start()
        home = Path("/home/gpu-runner")
        environment = dict(line.split("=", 1) for line in (home / "env").read_text().splitlines())
        uid = (home / "uid").read_text().strip()
        own = subprocess.run(["id", "-u", "gpu-runner"], capture_output=True, text=True, check=True).stdout.strip()
        runtime = Path("/run/gpu-agent/docker").stat()
        return {
            **said,
            "environment": environment,
            "own": [uid == own, str(runtime.st_uid) == own],
            "mode": oct(runtime.st_mode & 0o777),
            "lent": [lent("uid"), lent("gid")],
        }

    done = machine.inside(work)
    runtime = "/run/gpu-agent/docker"
    client = {"XDG_RUNTIME_DIR": runtime, "DOCKER_HOST": f"unix://{runtime}/docker.sock"}
    assert done["said"] == ""
    assert done["given"] == client
    assert client.items() <= done["environment"].items()
    assert done["environment"]["DOCKERD_ROOTLESS_ROOTLESSKIT_NET"] == "slirp4netns"
    assert done["environment"]["DOCKERD_ROOTLESS_ROOTLESSKIT_DISABLE_HOST_LOOPBACK"] == "true"
    assert done["own"] == [True, True]
    assert done["mode"] == "0o700"
    assert done["lent"] == [["gpu-runner:165536:65536"], ["gpu-runner:100000:65536"]]


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (
            lambda: install(ENGINE.format(network=NETWORK.replace("--disable-host-loopback ", ""))),
            "not-isolated: slirp4netns does not run with --disable-host-loopback",
        ),
        (
            lambda: install(ENGINE.format(network="")),
            "not-isolated: slirp4netns does not run with --disable-host-loopback",
        ),
        (
            lambda: install(ENGINE.format(network=NETWORK + "\n" + NETWORK.replace("--disable-host-loopback ", ""))),
            "not-isolated: slirp4netns does not run with --disable-host-loopback",
        ),
        (
            lambda: install(options="[name=seccomp]"),
            "not-isolated: the Docker that answers is not rootless: [name=seccomp]",
        ),
        (
            lambda: install("#!/bin/sh\necho newuidmap: Could not set caps\nexit 3\n"),
            "no-docker: rootless Docker ended (3): newuidmap: Could not set caps",
        ),
    ],
)
def test_an_engine_that_the_rules_may_not_cover_ends_the_machine(prepare: Callable[[], None], said: str) -> None:
    def work() -> dict[str, Any]:
        prepare()
        return start()

    assert machine.inside(work)["said"] == said
