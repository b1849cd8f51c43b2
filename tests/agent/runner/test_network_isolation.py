"""The network isolation in real network namespaces: which users still reach the machine's identity."""

from __future__ import annotations

import grp
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.clock import Clock
from gpu_agent.host import BlockedAddresses
from gpu_agent.machine import processes
from gpu_agent.machine.system import BOOTED, ENVIRONMENT, Output, System, User
from gpu_agent.outcomes import AgentExit
from gpu_agent.runner import network_isolation
from gpu_agent.runner.network_isolation import (
    RULES,
    SOCKETS,
    UNIT,
    block_at_boot,
    block_identity,
    disable_services_of,
    isolate,
    rules,
    start_rootless_docker,
)

from tests.agent.fakes import machine
from tests.agent.fakes.isolated import BLOCKED, try_isolation
from tests.agent.fakes.machine import IPV4, IPV6, NOBODY

# A short form of Docker's own rules: they accept what a bridge forwards, at the usual priority.
ACCEPT_ALL = """
table inet docker {
  chain forward { type filter hook forward priority 0; policy accept; accept; }
  chain output { type filter hook output priority 0; policy accept; accept; }
}
"""


class Broken(System):
    """An nft that reports success and does nothing. Only the test of the isolation detects that."""

    def must(self, reason: str, argv: Sequence[str], *, text: str = "", timeout_sec: float = 30) -> str:
        return "" if argv[0] == "nft" else super().must(reason, argv, text=text, timeout_sec=timeout_sec)


def reached(*ports: int) -> dict[str, list[str]]:
    """Return the answer of each address and port to root, a user and a container. The IPv4 address comes first."""
    targets = [f"{address} {port}" for address in (IPV4, IPV6) for port in ports]
    return {
        "root": machine.reach(*targets),
        "nobody": machine.reach(*targets, uid=NOBODY),
        "container": machine.reach(*targets, box=True),
    }


def test_the_rules_for_nft_are_these() -> None:
    assert rules(BlockedAddresses((IPV4,), (53,))) == (
        "table inet gpu_agent\n"
        "delete table inet gpu_agent\n"
        "table inet gpu_agent {\n"
        "  chain output { type filter hook output priority -310; policy accept;\n"
        "    meta skuid 0 accept\n"
        f"    ip daddr {IPV4} meta l4proto {{ tcp, udp }} th dport {{ 53 }} accept\n"
        f"    ip daddr {IPV4} meta l4proto tcp reject with tcp reset\n"
        f"    ip daddr {IPV4} reject\n"
        "  }\n"
        "  chain forward { type filter hook forward priority -310; policy accept;\n"
        f"    ip daddr {IPV4} meta l4proto {{ tcp, udp }} th dport {{ 53 }} accept\n"
        f"    ip daddr {IPV4} meta l4proto tcp reject with tcp reset\n"
        f"    ip daddr {IPV4} reject\n"
        "  }\n"
        "}\n"
    )


def test_jobs_of_a_public_pool_reach_no_private_address() -> None:
    """The emulated machine has its identity at addresses that count as private here."""
    machine.needs("nft")
    private = BlockedAddresses((), (), answer=False, networks=(f"{IPV4}/32", f"{IPV6}/128"))

    def work() -> list[object]:
        machine.network()
        subprocess.run(["nft", "-f", "-"], input=rules(private), text=True, check=True)
        return [reached(80, 53)]

    closed = ["ConnectionRefusedError", "identity"]
    expected = {"root": ["identity"] * 4, "nobody": closed * 2, "container": closed * 2}
    assert machine.inside(work) == [expected]


def test_an_open_private_address_is_detected() -> None:
    machine.needs("nft")
    # The last address of the network that a machine can have is tried.
    private = BlockedAddresses((), (), answer=False, networks=(f"{IPV4.rpartition('.')[0]}.0/24",))

    def work() -> str:
        machine.network()
        return try_isolation(Broken(python=machine.open_python()), blocked=private)

    assert machine.inside(work).startswith("not-isolated: gpu-runner can reach private addresses: ")


def test_without_the_isolation_every_user_reaches_the_identity() -> None:
    """Without the isolation the addresses are reachable. The other tests depend on that."""
    machine.needs("nft")

    def work() -> dict[str, list[str]]:
        machine.network()
        return reached(80)

    assert machine.inside(work) == {who: ["identity"] * 2 for who in ("root", "nobody", "container")}


def test_only_root_outside_of_containers_reaches_the_identity() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        subprocess.run(["nft", "-f", "-"], input=ACCEPT_ALL, text=True, check=True)
        return [try_isolation(), reached(80, 53, 123, 67, 547)]

    # systemd-networkd renews the machine's address as its own user.
    others = ["identity", "time", "time", "time"]
    closed = ["ConnectionRefusedError", *others]
    assert machine.inside(work) == [
        "",
        {"root": ["identity", *others] * 2, "nobody": closed * 2, "container": closed * 2},
    ]


@pytest.mark.slow
def test_the_isolation_fails_without_a_packet_filter() -> None:
    class Bare(System):
        def have(self, program: str) -> bool:
            return program in processes.NEEDED

    def work() -> str:
        machine.network()
        return try_isolation(Bare(python=machine.open_python()))

    assert machine.inside(work) == ("no-tool: the image has no nft: add nftables to the image")


def test_a_packet_filter_that_does_not_block_the_user_is_detected() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        return try_isolation(Broken(python=machine.open_python()))

    assert machine.inside(work) == (
        f"not-isolated: gpu-runner can reach the machine's identity: {IPV4} (open), {IPV6} (open)"
    )


def test_a_packet_filter_that_also_blocks_the_agent_is_detected() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        rule = f"type filter hook output priority 0; ip daddr {IPV4} reject;"
        block = f"table inet other {{ chain output {{ {rule} }}; }}"
        subprocess.run(["nft", "-f", "-"], input=block, text=True, check=True)
        return try_isolation(blocked=BlockedAddresses((IPV4,), ()))

    assert machine.inside(work) == (
        f"not-isolated: the agent itself no longer reaches the machine's identity: {IPV4} (ECONNREFUSED)"
    )


def test_a_rented_host_needs_no_service_at_the_addresses() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        nobody = BlockedAddresses(("192.0.2.7",), (), answer=False)
        return try_isolation(blocked=nobody) + "|" + try_isolation(blocked=nobody._replace(answer=True))

    isolated, refused = machine.inside(work).split("|")
    assert isolated == ""
    assert refused.startswith("not-isolated: the agent itself no longer reaches the machine's identity: 192.0.2.7")


ASKED = Path("/run/asked")


def with_systemd(code: int = 0) -> None:
    """A fake systemctl that records its arguments."""
    BOOTED.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", "/usr/local/sbin"], check=True)
    program = Path("/usr/local/sbin/systemctl")
    program.write_text(f'#!/bin/sh\necho "$*" >>{ASKED}\nexit {code}\n')
    program.chmod(0o755)


def test_a_later_boot_has_the_rules_before_its_agent_starts() -> None:
    machine.needs("nft")

    def work() -> list[Any]:
        machine.network()
        with_systemd()
        targets = (f"{IPV4} 80", f"{IPV6} 80", f"{IPV4} 53")
        block_identity(BLOCKED, System())
        # The kernel of the next boot has no rules yet. The command of the unit loads them.
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        before = machine.reach(*targets, uid=NOBODY)
        lines = UNIT.read_text().splitlines()
        [command] = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
        subprocess.run(command.split(), check=True)
        return [before, machine.reach(*targets, uid=NOBODY), ASKED.read_text(), RULES.read_text()]

    before, after, asked, kept = machine.inside(work)
    assert before == ["identity"] * 3
    assert after == ["ConnectionRefusedError", "ConnectionRefusedError", "identity"]
    assert asked == "enable gpu-agent-cut.service\n"
    assert kept == rules(BLOCKED)


def test_the_unit_starts_before_the_network_and_before_services_of_users() -> None:
    def work() -> str:
        with_systemd()
        block_at_boot("", System())
        return UNIT.read_text()

    unit = machine.inside(work)
    assert "DefaultDependencies=no\n" in unit
    assert "\nBefore=network-pre.target systemd-user-sessions.service\n" in unit
    assert "\nWantedBy=sysinit.target\n" in unit


@pytest.mark.parametrize("command", ["enable gpu-agent-cut.service", "mask --now user@990.service"])
def test_the_isolation_fails_if_systemd_refuses(command: str) -> None:
    def work() -> list[str]:
        with_systemd(code=5)
        found = []
        for make in (
            lambda: block_at_boot("", System()),
            lambda: disable_services_of(User("gpu-runner", 990, 990, Path("/")), System()),
        ):
            try:
                make()
            except Exception as error:
                found.append(str(error))
        return [*found, *ASKED.read_text().splitlines()]

    *said, one, two = machine.inside(work)
    assert said == ["not-isolated: systemctl failed (5): exit code 5"] * 2
    assert command in (one, two)


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


def test_the_runners_user_has_a_home_and_neither_a_password_nor_a_group() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        made = isolate(BLOCKED, "none", System(python=machine.open_python()), Clock(), Clock().now() + 30)
        [shadow] = [line for line in Path("/etc/shadow").read_text().splitlines() if line.startswith("gpu-runner:")]
        named = subprocess.run(["id", "-Gn", "gpu-runner"], capture_output=True, text=True, check=True).stdout.split()
        user = made.user
        return [user.uid < 1000, str(user.home), shadow.split(":")[1], named, list(user.groups), dict(made.environment)]

    assert machine.inside(work) == [True, "/home/gpu-runner", "!", ["gpu-runner"], [], {}]


def test_every_socket_of_roots_engine_that_the_user_may_open_is_named() -> None:
    """Sockets outside /run are left out, because only /run belongs to the test."""
    machine.needs("nft")
    sockets = [path for path in SOCKETS if path.startswith("/run/")]

    def work() -> str:
        machine.network()
        for path in sockets:
            machine.socket_of_engine(Path(path), 0o666)
        return try_isolation()

    said = machine.inside(work)
    assert said.startswith("not-isolated: gpu-runner may use a container engine of root: ")
    assert [path for path in sockets if f"{path} (open)" not in said] == []


def test_a_socket_of_roots_engine_that_only_its_group_may_open_is_closed() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        machine.socket_of_engine(Path("/run/docker.sock"), 0o660)
        return try_isolation()

    assert machine.inside(work) == ""


def test_sudo_without_a_password_is_named() -> None:
    machine.needs("nft")

    class WithSudo(System):
        def run(self, argv, **rest):  # type: ignore[no-untyped-def]
            # Like sudo, it has no effect for a process that can gain no permissions.
            works = ["grep", "-qP", r"NoNewPrivs:\t0", "/proc/self/status"]
            return super().run(works if argv[0] == "sudo" else argv, **rest)

    def work() -> str:
        machine.network()
        return try_isolation(WithSudo(python=machine.open_python()))

    assert machine.inside(work) == (
        "not-isolated: gpu-runner may use sudo without a password: check /etc/sudoers.d of the image"
    )


def test_rootful_gives_the_engines_group_and_still_cuts_bridges() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        subprocess.run(["groupadd", "--force", "docker"], check=True)
        machine.socket_of_engine(Path("/run/docker.sock"), 0o660)
        made = isolate(BLOCKED, "rootful", System(python=machine.open_python()), Clock(), Clock().now() + 30)
        target = f"{IPV4} 80"
        return [len(made.user.groups), *machine.reach(target, box=True), *machine.reach(target, uid=NOBODY)]

    assert machine.inside(work) == [1, "ConnectionRefusedError", "ConnectionRefusedError"]


def test_root_inside_a_namespace_of_the_users_own_cannot_take_the_cut_away() -> None:
    machine.needs("nft", "unshare")

    def work() -> list[object]:
        machine.network()
        system = System(python=machine.open_python())
        user = isolate(BLOCKED, "none", system, Clock(), Clock().now() + 30).user
        command = ["unshare", "--user", "--map-root-user", "nft", "delete", "table", "inet", "gpu_agent"]
        tried = system.run(command, user=user, timeout_sec=30)
        return [tried.code != 0, *machine.reach(f"{IPV4} 80", uid=user.uid), *machine.reach(f"{IPV4} 80")]

    assert machine.inside(work) == [True, "ConnectionRefusedError", "identity"]


def test_the_users_processes_cannot_read_the_agents_environment_or_memory() -> None:
    machine.needs("nft")

    def work() -> list[int]:
        machine.network()
        system = System(python=machine.open_python())
        user = isolate(BLOCKED, "none", system, Clock(), Clock().now() + 30).user
        files = [f"/proc/{os.getpid()}/{name}" for name in ("environ", "mem", "maps")]
        return [system.run(["cat", file], user=user, timeout_sec=10).code for file in files]

    assert machine.inside(work) == [1, 1, 1]


USER = User("gpu-runner", 990, 990, Path("/home/gpu-runner"))
PORTS = ("127.0.0.1:2375", "127.0.0.1:2376", "[::1]:2375", "[::1]:2376")
ENGINES = (*SOCKETS, *PORTS)


class AnsweringSystem(System):
    """A system whose targets answer with the given words. All other targets are closed."""

    def __init__(self, words: Mapping[str, str] = {}, groups: set[int] | None = None, **answers: Output) -> None:
        super().__init__()
        self.words, self.groups, self.answers = words, groups or {USER.gid}, answers
        self.tried: list[str] = []

    def have(self, program: str) -> bool:
        return True

    def runner_user(self) -> User:
        return USER

    def groups_of(self, user: User) -> set[int]:
        return self.groups

    def must(self, reason: str, argv: Sequence[str], *, text: str = "", timeout_sec: float = 30) -> str:
        return ""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_sec: float,
        text: str = "",
        user: User | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
        may_gain: bool = False,
    ) -> Output:
        if argv[0] == "sudo":
            return self.answers.get("sudo", Output(1, "a password is required"))
        names = list(json.loads(argv[-1]))
        what = "root" if user is None else "identity" if IPV4 in names else "engines"
        closed = dict.fromkeys(names, "open" if user is None else "ECONNREFUSED")
        self.tried += [] if user is None else names
        said = "".join(f"{name} {self.words.get(name, word) if user else word}\n" for name, word in closed.items())
        answer = self.answers.get(what, Output(0, "{}"))
        return answer._replace(text=answer.text.replace("{}", said))


@pytest.fixture
def _started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_isolation, "start_rootless_docker", lambda *_: {})


@pytest.mark.usefixtures("_started")
@pytest.mark.parametrize("docker", ["none", "rootless"])
def test_the_isolation_succeeds_if_all_targets_are_closed_and_tests_each_of_them(docker: str) -> None:
    system = AnsweringSystem()
    assert try_isolation(system, docker) == ""
    assert system.tried == [*BLOCKED.addresses, *ENGINES]


@pytest.mark.usefixtures("_started")
@pytest.mark.parametrize("docker", ["none", "rootless"])
@pytest.mark.parametrize("word", ["open", "silence"])
@pytest.mark.parametrize("address", [IPV4, IPV6])
def test_an_address_that_opens_or_does_not_answer_is_not_blocked(address: str, word: str, docker: str) -> None:
    said = f"not-isolated: gpu-runner can reach the machine's identity: {address} ({word})"
    assert try_isolation(AnsweringSystem({address: word}), docker) == said


@pytest.mark.usefixtures("_started")
@pytest.mark.parametrize("docker", ["none", "rootless"])
@pytest.mark.parametrize(
    "group",
    [
        "root",
        "docker",
        "podman",
        "lxd",
        "incus",
        "sudo",
        "wheel",
        "admin",
        "google-sudoers",
        "disk",
        "libvirt",
    ],
)
def test_each_group_with_root_access_is_named(group: str, docker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {USER.gid: USER.name, 4242: group}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((names[gid], "x", gid, [])))
    said = f"not-isolated: gpu-runner is a member of a group with root access in this image: {group}"
    assert try_isolation(AnsweringSystem(groups={USER.gid, 4242}), docker) == said


@pytest.mark.slow
def test_dropped_packets_do_not_count_as_blocked() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        rule = f"type filter hook output priority -400; meta skuid != 0 ip daddr {IPV4} drop;"
        table = f"table inet other {{ chain output {{ {rule} }}; }}"
        subprocess.run(["nft", "-f", "-"], input=table, text=True, check=True)
        return try_isolation()

    said = f"not-isolated: gpu-runner can reach the machine's identity: {IPV4} (silence)"
    assert machine.inside(work) == said


@pytest.mark.parametrize(
    ("family", "to", "name"),
    [
        (socket.AF_INET, ("127.0.0.1", 2375), "127.0.0.1:2375"),
        (socket.AF_INET6, ("::1", 2376), "[::1]:2376"),
        (socket.AF_UNIX, "/run/docker.sock", "/run/docker.sock"),
    ],
)
def test_an_engine_that_listens_is_found(family: int, to: Any, name: str) -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        with socket.socket(family) as server:
            server.bind(to)
            if isinstance(to, str):
                Path(to).chmod(0o666)
            server.listen()
            return try_isolation()

    said = machine.inside(work)
    assert said.startswith("not-isolated: gpu-runner may use a container engine of root: ")
    assert f"{name} (open)" in said


def test_a_socket_of_a_root_engine_with_a_full_queue_counts_as_open() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        path = Path("/run/podman/podman.sock")
        path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
            server.bind(str(path))
            path.chmod(0o666)
            server.listen(0)
            first.connect(str(path))
            return try_isolation()

    said = machine.inside(work)
    assert said.startswith("not-isolated: gpu-runner may use a container engine of root: ")
    assert "/run/podman/podman.sock (silence)" in said
