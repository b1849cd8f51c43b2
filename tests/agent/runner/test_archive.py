"""The runner's archive is found in the image, or downloaded and compared with its checksum. No other archive is
unpacked.
"""

from __future__ import annotations

import os
import platform
import stat
import tarfile
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.config import RunnerConfig
from gpu_agent.machine.system import System
from gpu_agent.outcomes import AgentExit
from gpu_agent.runner import archive
from gpu_agent.runner.archive import MARKER, obtain

from tests.agent.fakes import runner
from tests.agent.fakes.runner import VERSION, Entry

GOOD = runner.archive(runner.listener("/usr/bin/python3"))


class Quick(Clock):
    """A clock whose waits take no time. The deadline still comes."""

    waited = 0.0

    def now(self) -> float:
        return super().now() + self.waited

    def sleep(self, seconds: float) -> None:
        self.waited += seconds


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    # Only the test's own server may be used.
    monkeypatch.setenv("GPU_AGENT_RUNNER_URL", "http://127.0.0.1:1")
    return System(tmp_path / "run", tmp_path / "state", tmp_path / "baked")


def config(content: bytes = GOOD) -> RunnerConfig:
    return RunnerConfig(VERSION, {"x64": runner.sha256(content)})


def get(system: System, pinned: RunnerConfig, seconds: float = 20, said: list[str] | None = None) -> Path:
    clock = Quick()
    return obtain(pinned, system, clock, clock.now() + seconds, (said if said is not None else []).append)


def bake(system: System, sha256: str) -> Path:
    folder = system.baked_folder / VERSION
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "Runner.Listener").write_text("baked")
    (folder / MARKER).write_text(sha256 + "\n")
    for path in (folder, folder / "bin", folder / "bin" / "Runner.Listener", folder / MARKER):
        path.chmod(0o755)
    return folder


def test_a_runner_in_the_image_with_the_pinned_checksum_needs_no_download(system: System) -> None:
    folder = bake(system, runner.sha256(GOOD))
    assert get(system, config()) == folder


@pytest.mark.parametrize("path", ["", "bin", "bin/Runner.Listener", MARKER])
def test_a_runner_in_the_image_that_other_users_may_write_is_not_used(system: System, path: str) -> None:
    folder = bake(system, runner.sha256(GOOD))
    (folder / path).chmod(0o775)
    said: list[str] = []
    with pytest.raises(AgentExit, match=r"no-runner: GET http://127\.0\.0\.1:1/"):
        get(system, config(), said=said)
    assert said == [f"gpu-agent: {folder} is not used: a user other than root may change {folder / path}"]


def test_the_pinned_runner_is_downloaded_if_the_image_has_another_one(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    bake(system, "0" * 64)
    with runner.releases(lambda _: (200, GOOD, len(GOOD))) as (url, asked):
        monkeypatch.setenv("GPU_AGENT_RUNNER_URL", url)
        assert get(system, config()) == system.state_folder / "actions-runner" / VERSION
    assert asked == [f"/v{VERSION}/actions-runner-linux-x64-{VERSION}.tar.gz"]


def test_only_root_may_write_a_downloaded_runner(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive contains set-user-ID bits and write permission for everyone, which are removed."""
    content = runner.archive(
        runner.listener("/usr/bin/python3"),
        Entry("bin/open", "x", 0o6777),
        Entry("externals/bin", kind=tarfile.SYMTYPE, target="../bin"),
    )
    with runner.releases(lambda _: (200, content, len(content))) as (url, _):
        monkeypatch.setenv("GPU_AGENT_RUNNER_URL", url)
        tree = get(system, config(content))
    status = {path.name: path.lstat() for path in [tree, *tree.rglob("*")]}
    assert {each.st_uid for each in status.values()} == {os.geteuid()}
    assert stat.S_IMODE(status["open"].st_mode) == 0o755
    assert [name for name, each in status.items() if each.st_mode & 0o022 and not stat.S_ISLNK(each.st_mode)] == []
    assert (tree / MARKER).read_text() == runner.sha256(content) + "\n"
    assert sorted(path.name for path in tree.parent.iterdir()) == [VERSION]


@pytest.mark.parametrize("damage", ["empty", "missing", "added", "mode", "link", "no checksum"])
def test_a_downloaded_runner_that_was_changed_is_downloaded_again(
    system: System, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    link = Entry("externals/node", kind=tarfile.SYMTYPE, target="../bin")
    content = runner.archive(runner.listener("/usr/bin/python3"), Entry("externals/one", "x"), link)
    with runner.releases(lambda _: (200, content, len(content))) as (url, asked):
        monkeypatch.setenv("GPU_AGENT_RUNNER_URL", url)
        folder = get(system, config(content))
        one = folder / "externals" / "one"
        match damage:
            case "empty":
                one.write_text("")
            case "missing":
                one.unlink()
            case "added":
                one.with_name("two").touch()
            case "mode":
                one.chmod(0o755)
            case "link":
                one.with_name("node").unlink()
                one.with_name("node").symlink_to("../externals")
            case "no checksum":
                (folder / archive.CONTENTS).unlink()
        said: list[str] = []
        assert get(system, config(content), said=said) == folder
        assert (len(asked), len(said), one.read_text()) == (2, 1, "x")
        assert said[0].startswith(f"gpu-agent: {folder} is not used: its files ")
        # The download is complete again.
        assert get(system, config(content)) == folder
        assert len(asked) == 2


def test_another_archive_than_the_pinned_one_is_never_unpacked(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    other = runner.archive(Entry("bin/Runner.Listener", "another", 0o755))
    monkeypatch.setattr(archive, "_unpack", lambda *_: pytest.fail("unpacked"))
    with runner.releases(lambda _: (200, other, len(other))) as (url, asked):
        monkeypatch.setenv("GPU_AGENT_RUNNER_URL", url)
        with pytest.raises(AgentExit) as ended:
            get(system, config())
    assert str(ended.value) == (
        f"wrong-checksum: {url}{asked[0]}: got sha256 {runner.sha256(other)}, expected {runner.sha256(GOOD)}"
    )
    assert len(asked) == 1
    assert list((system.state_folder / "actions-runner").iterdir()) == []


@pytest.mark.parametrize(
    "entry",
    [
        Entry("../outside", "x"),
        Entry("bin/../../outside", "x"),
        Entry("/tmp/outside", "x"),  # noqa: S108
        Entry("out", kind=tarfile.SYMTYPE, target="../.."),
        Entry("out", kind=tarfile.SYMTYPE, target="/etc"),
        Entry("out", kind=tarfile.LNKTYPE, target="../archive"),
        Entry("out", kind=tarfile.LNKTYPE, target="/etc/shadow"),
        Entry("out", kind=tarfile.FIFOTYPE),
        Entry("out", kind=tarfile.CHRTYPE),
    ],
)
def test_a_member_outside_the_folder_stops_the_unpacking(
    system: System, monkeypatch: pytest.MonkeyPatch, entry: Entry
) -> None:
    content = runner.archive(runner.listener("/usr/bin/python3"), entry)
    with runner.releases(lambda _: (200, content, len(content))) as (url, _):
        monkeypatch.setenv("GPU_AGENT_RUNNER_URL", url)
        with pytest.raises(AgentExit) as ended:
            get(system, config(content))
    said = f"no-runner: the archive has {entry.name!r}, which is outside its folder"
    assert str(ended.value) == said
    assert list((system.state_folder / "actions-runner").iterdir()) == []
