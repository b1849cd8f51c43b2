"""Tests of the isolation: an isolated process tries to read files and to use the network."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_preview.errors import PreviewError
from gpu_preview.isolation import bubblewrap
from gpu_preview.isolation.limits import Limits


@pytest.fixture
def bwrap() -> None:
    """Skip a test that runs bubblewrap on a machine without it. The machines of CI have it."""
    if shutil.which("bwrap") is None and "CI" not in os.environ:
        pytest.skip("bubblewrap is not installed")


@pytest.fixture
def built(bwrap: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bubblewrap.Isolation:
    """Return the isolation around a checkout that contains a secret."""
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    for folder in (checkout / ".git", checkout / "tools", home / ".aws", tmp_path / "scratch"):
        folder.mkdir(parents=True)
    (checkout / ".git" / "config").write_text("planted-token")
    (checkout / "tools" / "program").write_text("needed")
    (home / ".aws" / "credentials").write_text("planted-token")
    monkeypatch.setenv("HOME", str(home))
    for folder in (home, tmp_path):
        monkeypatch.syspath_prepend(folder)
    needed = [*bubblewrap.own_paths(), checkout]
    return bubblewrap.build(tmp_path / "scratch", checkout, needed)


def python(built: bubblewrap.Isolation, program: str) -> subprocess.CompletedProcess[str]:
    assert built.prefix, built.reason
    command = built.wrap([sys.executable, "-I", "-S", "-c", program])
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_it_reads_what_it_needs_and_writes_to_its_own_folder(built: bubblewrap.Isolation, tmp_path: Path) -> None:
    made, needed = str(tmp_path / "scratch" / "made"), str(tmp_path / "checkout" / "tools" / "program")
    program = f"open({made!r}, 'w').write(open({needed!r}).read())"
    assert python(built, program).returncode == 0
    assert (tmp_path / "scratch" / "made").read_text() == "needed"


@pytest.mark.parametrize("hidden", ["checkout/.git/config", "home/.aws/credentials"])
def test_it_sees_neither_the_home_nor_the_checkouts_git(
    built: bubblewrap.Isolation, tmp_path: Path, hidden: str
) -> None:
    assert (tmp_path / hidden).read_text() == "planted-token"
    done = python(built, f"print(open({str(tmp_path / hidden)!r}).read())")
    assert done.returncode == 1
    assert "planted-token" not in done.stdout + done.stderr
    assert "No such file" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [("RUNNER_TEMP", "step"), ("GITHUB_WORKSPACE", "step/"), ("GITHUB_EVENT_PATH", "step/event.json"),
     ("RUNNER_TEMP", "link to step")],
)  # fmt: skip
def test_the_folders_of_a_step_are_hidden_wherever_they_lie(
    built: bubblewrap.Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """In the container of a job, these folders are below /__w."""
    (tmp_path / "step").mkdir()
    (tmp_path / "link to step").symlink_to(tmp_path / "step")

    def hidden() -> list[str]:
        words = bubblewrap.build(tmp_path / "scratch", tmp_path / "checkout", bubblewrap.own_paths()).prefix
        return [words[at + 1] for at, word in enumerate(words) if word == "--tmpfs"]

    assert built.prefix
    assert str(tmp_path / "step") not in hidden()
    monkeypatch.setenv(name, str(tmp_path / value))
    assert str(tmp_path / "step") in hidden()


def test_it_writes_nowhere_else(built: bubblewrap.Isolation, tmp_path: Path) -> None:
    done = python(built, f"open({str(tmp_path / 'checkout/tools/program')!r}, 'w')")
    assert "Read-only file system" in done.stderr
    assert (tmp_path / "checkout" / "tools" / "program").read_text() == "needed"


def test_a_folder_that_stays_as_it_is_can_only_be_read(built: bubblewrap.Isolation, tmp_path: Path) -> None:
    base = tmp_path / "scratch" / "base"
    base.mkdir()
    (base / "rules.py").write_text("as the base has it")
    fixed = built.reading_only(base)
    done = python(fixed, f"print(open({str(base / 'rules.py')!r}).read()); open({str(base / 'rules.py')!r}, 'w')")
    assert done.stdout == "as the base has it\n"
    assert "Read-only file system" in done.stderr
    assert python(fixed, f"open({str(tmp_path / 'scratch' / 'made')!r}, 'w')").returncode == 0


def test_a_command_that_installed_packages_is_reported_because_it_had_the_network(built: bubblewrap.Isolation) -> None:
    [network] = [
        each for each in built.described(Limits(), ["base: make deps", "head: make deps"]) if each.name == "network"
    ]
    assert (network.stands, network.text) == (
        False,
        "it had network access while packages were installed: base: make deps; head: make deps",
    )


@pytest.mark.parametrize("folder", ["/run", "/tmp", "/dev/shm"])  # noqa: S108
def test_its_files_in_memory_are_limited(built: bubblewrap.Isolation, folder: str) -> None:
    done = python(built, f"open('{folder}/file', 'wb').write(bytes(100 * 1024**2))")
    assert "No space left on device" in done.stderr


def test_it_writes_nothing_among_the_devices_but_to_them(built: bubblewrap.Isolation) -> None:
    assert "Read-only file system" in python(built, "open('/dev/file', 'wb')").stderr
    assert python(built, "open('/dev/null', 'wb').write(b'x')").returncode == 0
    assert python(built, "open('/dev/shm/small', 'wb').write(b'x')").returncode == 0


def test_it_sets_nothing_of_the_kernel_not_even_as_root(built: bubblewrap.Isolation) -> None:
    done = python(built, "open('/proc/sys/kernel/core_pattern', 'a')")
    # A user without root is refused by the file's mode, before the file system is asked.
    assert ("Permission denied" if os.geteuid() else "Read-only file system") in done.stderr


def test_it_makes_no_user_namespace_that_would_give_it_capabilities(built: bubblewrap.Isolation) -> None:
    program = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(libc.unshare(0x10000000), ctypes.get_errno())"
    )
    assert python(built, program).stdout == f"-1 {errno.ENOSPC}\n"  # user_namespaces(7): the limit is reached


@pytest.mark.usefixtures("bwrap")
@pytest.mark.parametrize("steps", [1, 2])
def test_the_resolvers_settings_are_read_where_they_are_a_link_into_a_hidden_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """On Ubuntu, /etc/resolv.conf is a link into /run."""
    etc, run = tmp_path / "etc", tmp_path / "run"
    for folder in (etc, run / "resolve", tmp_path / "scratch"):
        folder.mkdir(parents=True)
    (run / "resolve" / "stub.conf").write_text("nameserver 127.0.0.53\n")
    (run / "resolve" / "secret").write_text("planted")
    (run / "resolv.conf").symlink_to("resolve/stub.conf")
    link = etc / "resolv.conf"
    link.symlink_to("../run/resolv.conf" if steps == 2 else "../run/resolve/stub.conf")
    monkeypatch.setattr(bubblewrap, "_RESOLVER", link)
    monkeypatch.setattr(bubblewrap, "_ALWAYS_HIDDEN", (str(run),))
    found = bubblewrap.build(tmp_path / "scratch", tmp_path / "checkout", bubblewrap.own_paths())
    assert python(found, f"print(open({str(link)!r}).read(), end='')").stdout == "nameserver 127.0.0.53\n"
    assert "No such file" in python(found, f"open({str(run / 'resolve' / 'secret')!r})").stderr
    assert "Read-only file system" in python(found, f"open({str(link)!r}, 'a')").stderr


@pytest.mark.usefixtures("bwrap")
def test_a_resolver_without_settings_hinders_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for each in (loop, tmp_path / "missing"):
        monkeypatch.setattr(bubblewrap, "_RESOLVER", each)
        (tmp_path / "scratch").mkdir(exist_ok=True)
        assert (
            python(bubblewrap.build(tmp_path / "scratch", tmp_path, bubblewrap.own_paths()), "print(1)").stdout == "1\n"
        )


def test_it_has_no_network_but_its_own(built: bubblewrap.Isolation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        assert "Connection refused" in python(built, program).stderr
    own = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5)"
    assert python(built, own).returncode == 0


def test_it_sees_no_process_of_others(built: bubblewrap.Isolation) -> None:
    listed = python(built, "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))")
    assert int(listed.stdout) <= 3


def test_the_report_lists_each_kind_of_isolation(built: bubblewrap.Isolation) -> None:
    stands = {each.name: each.stands for each in built.described(Limits())}
    assert stands == {"environment": True, "limits": True, "files": True, "network": True, "processes": True}


def test_without_bubblewrap_the_report_says_so_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    without = bubblewrap.build(tmp_path, tmp_path, [])
    assert without.wrap(["true"]) == ["true"]
    parts = {each.name: each for each in without.described(Limits())}
    assert [name for name, each in parts.items() if not each.stands] == ["files", "network", "processes"]
    assert "it is not installed (package bubblewrap)" in parts["files"].text
    assert [parts[name].text for name in ("network", "processes")] == ["for the same reason"] * 2


def test_required_isolation_is_active_or_nothing_runs(built: bubblewrap.Isolation) -> None:
    built.require()
    with pytest.raises(PreviewError, match=r"^the head's code cannot be isolated: bubblewrap: it is not installed"):
        bubblewrap.Isolation((), "it is not installed").require()
    with pytest.raises(PreviewError, match="exclude each other"):
        built.with_network().require()


def test_a_bubblewrap_that_does_not_run_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(broken))
    found = bubblewrap.build(tmp_path, tmp_path, [])
    assert (found.prefix, found.reason) == ((), "it does not run (setting up uid map: Permission denied)")


def test_the_network_that_was_asked_for_is_no_wall(tmp_path: Path) -> None:
    parts = {each.name: each for each in bubblewrap.Isolation(("bwrap",), network=True).described(Limits())}
    assert (parts["network"].stands, parts["network"].text) == (False, "it had network access (--with-network)")
