"""Finding the Pulumi CLI: the order of its sources, and the error if no source has one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pulumi_sandbox.engine import install, locate
from pulumi_sandbox.engine.model import HOST, VERSION, Engine, EngineError, SourceError, new_enough

from tests.sandbox.language_host.hosts import script

pytestmark = pytest.mark.usefixtures("own_folder")


def fake_cli(folder: Path, version: str = VERSION, host: bool = True) -> Path:
    if host:
        script(folder / HOST, "exit 0")
    return script(folder / "pulumi", f"echo asked >> '{folder}/asked'\necho v{version}")


def closed(reason: str, hint: str = "do this") -> Callable[..., Engine]:
    def source(*_: object) -> Engine:
        raise SourceError(reason, hint)

    return source


@pytest.mark.parametrize(
    ("text", "enough"),
    [("v3.259.0", True), ("v3.300.0", True), ("v3.258.9", False), ("v2.999.0", False), ("v4.0.0", False), ("?", False)],
)
def test_only_a_version_that_was_tried_or_a_later_one_is_used(text: str, enough: bool) -> None:
    assert new_enough(text) is enough


def test_a_cli_on_path_is_used_and_asked_for_its_version_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "is_shim", lambda _: False)
    main = fake_cli(tmp_path / "bin")
    assert locate.installed() == Engine(main.parent, VERSION, "path")
    assert locate.installed() == Engine(main.parent, VERSION, "path")
    assert (tmp_path / "bin" / "asked").read_text() == "asked\n"
    assert locate.search_path("/usr/bin") == "/usr/bin"  # it is on PATH already


def test_a_cli_that_cannot_be_used_is_named_once_although_another_one_is_there(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cli(tmp_path / "bin", "3.258.0")
    fake_cli(own_folder)
    locate.record_engine(Engine(own_folder, VERSION, "official"))
    messages: list[str] = []
    for _ in range(2):
        assert locate.ensure(messages.append).source == "official"
    assert [text.splitlines()[0] for text in messages] == [
        f"`pulumi` on PATH is not used: {tmp_path}/bin/pulumi is version 3.258.0"
    ]
    # Where nothing else may be used, the error has it, and nothing says it before.
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "path")
    fake_cli(tmp_path / "bin", "3.257.0")
    with pytest.raises(EngineError, match=r"1\. `pulumi` on PATH: .* is version 3\.257\.0"):
        locate.ensure(messages.append)
    assert len(messages) == 1


def test_a_cli_without_its_python_host_is_not_used(tmp_path: Path) -> None:
    fake_cli(tmp_path / "bin", host=False)
    failures: list[tuple[str, SourceError]] = []
    assert locate.users_engine(failures) is None
    assert [(source, error.reason) for source, error in failures] == [
        ("path", f"{HOST} is missing from the folder of {tmp_path}/bin/pulumi")
    ]


def test_the_shell_that_has_our_environment_does_not_take_our_engine_for_one_on_path(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cli(own_folder)
    locate.record_engine(Engine(own_folder, VERSION, "build"))
    monkeypatch.setenv("PATH", f"{own_folder}:{os.environ['PATH']}")
    assert locate.installed() == Engine(own_folder, VERSION, "build")
    assert locate.search_path("/usr/bin") == f"{own_folder}:/usr/bin"


def test_an_official_cli_is_not_run_with_the_language_host_of_a_built_one_that_a_shell_has_on_path(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine prefers a host on PATH to the host in its own folder."""
    fake_cli(own_folder)
    locate.record_engine(Engine(own_folder, VERSION, "build"))
    of_a_shell = f"{own_folder}:/usr/bin"
    assert locate.search_path("/usr/bin:/bin") == f"{own_folder}:/usr/bin:/bin"
    assert locate.search_path(of_a_shell) == of_a_shell
    main = fake_cli(tmp_path / "home" / ".pulumi" / "bin")
    assert locate.search_path(of_a_shell) == f"{main.parent}:/usr/bin"
    fake_cli(tmp_path / "bin")
    assert locate.search_path(of_a_shell) == "/usr/bin"


@pytest.mark.parametrize("entry", ["", ".", "bin"])
def test_the_folder_that_a_command_is_called_in_never_has_the_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """It may be the checkout of a pull request."""
    for folder in ("", "bin", ".pulumi/bin"):
        fake_cli(tmp_path / "checkout" / folder)
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.setenv("PATH", f"{entry}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", "")
    assert locate.installed() is None


def test_path_comes_before_the_kept_engine_unless_another_way_is_forced(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cli(own_folder)
    locate.record_engine(Engine(own_folder, VERSION, "build"))
    fake_cli(tmp_path / "bin")
    found = locate.installed()
    assert found is not None
    assert found.source == "path"
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "build")
    found = locate.installed()
    assert found is not None
    assert found.source == "build"
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "official")
    assert locate.installed() is None


@pytest.mark.parametrize(
    ("version", "warned"),
    [("3.259.0", False), ("3.259.7", False), ("3.260.0", True), ("3.1000.0", True), ("3.260.0-alpha.1", True)],
)
def test_a_version_newer_than_the_tested_one_gets_one_warning(tmp_path: Path, version: str, warned: bool) -> None:
    main = fake_cli(tmp_path / "bin", version)
    messages: list[str] = []
    for _ in range(2):
        assert locate.ensure(messages.append).version == version
    warning = (
        f"Pulumi {version} ({main}) is newer than 3.259.0, the version the sandbox is tested with\n"
        "  hint: if a command fails, PULUMI_SANDBOX_ENGINE=official installs and runs that version"
    )
    assert messages == ([warning] if warned else [])


def test_where_only_an_installed_cli_may_be_used_nothing_is_written(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An isolated process sees the folder of engines, and cannot write to it."""
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "path")
    with pytest.raises(EngineError, match="found no Pulumi CLI"):
        locate.ensure(lambda _: None)
    assert not own_folder.exists()


@pytest.mark.parametrize("damage", ["stamp", "version", "cli", "host"])
def test_half_an_engine_is_never_used(own_folder: Path, damage: str) -> None:
    fake_cli(own_folder)
    locate.record_engine(Engine(own_folder, VERSION, "build"))
    assert locate.installed() is not None
    if damage == "stamp":
        (own_folder / locate.RECORD_FILE).write_text("{")
    elif damage == "version":
        (own_folder / locate.RECORD_FILE).write_text(json.dumps({"version": "3.1.0", "way": "build", "folder": "."}))
    else:
        (own_folder / ("pulumi" if damage == "cli" else HOST)).unlink()
    assert locate.installed() is None


def test_the_ways_are_tried_in_order_and_the_first_that_works_is_kept(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def official(*_: object) -> Engine:
        tried.append("official")
        raise SourceError("no way out", "open one")

    def build(home: Path, _: object) -> Engine:
        tried.append("build")
        fake_cli(home)
        return Engine(home, VERSION, "build")

    monkeypatch.setattr(install, "install_archive", official)
    monkeypatch.setattr(install, "build", build)
    messages: list[str] = []
    assert locate.ensure(messages.append) == Engine(own_folder, VERSION, "build")
    assert tried == ["official", "build"]
    assert messages == ["Pulumi's archive: no way out"]
    assert locate.ensure(messages.append).source == "build"
    assert tried == ["official", "build"]


def test_when_every_way_is_closed_each_is_named_with_its_reason_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cli(tmp_path / "bin", "3.100.0")
    monkeypatch.setattr(install, "install_archive", closed("no route to host", "open the network"))
    monkeypatch.setattr(install, "build", closed("there is no `go` on PATH", "install Go"))
    with pytest.raises(EngineError) as caught:
        locate.ensure(lambda _: None)
    assert str(caught.value).splitlines() == [
        "pulumi-sandbox: found no Pulumi CLI (version 3.259.0 or newer) and could not install one",
        f"  1. `pulumi` on PATH: {tmp_path}/bin/pulumi is version 3.100.0",
        "     hint: upgrade it to 3.259.0 or newer",
        "  2. Pulumi's archive: no route to host",
        "     hint: open the network",
        "  3. a build from Go modules: there is no `go` on PATH",
        "     hint: install Go",
        "  hint: install Pulumi (https://www.pulumi.com/docs/install), then run the same command again",
    ]


def test_a_network_without_a_way_out_closes_the_official_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "ADDRESS", "https://127.0.0.1:9/pulumi")  # the discard port, unused
    with pytest.raises(SourceError, match=r"https://127\.0\.0\.1:9/pulumi-\S+\.tar\.gz: .*refused"):
        install.install_archive(locate.home(), lambda _: None)
    assert not list(locate.home().iterdir())


def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: bool = True) -> Path:
    """Offer an archive as Pulumi's archive of every system. Return its file."""
    fake_cli(tmp_path / "made" / "pulumi", host=host)
    shutil.make_archive(str(tmp_path / "pulumi-it"), "gztar", tmp_path / "made")
    archive = tmp_path / "pulumi-it.tar.gz"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    for system in install.SHA256:
        (tmp_path / f"pulumi-{system}.tar.gz").symlink_to(archive)
    monkeypatch.setattr(install, "SHA256", dict.fromkeys(install.SHA256, digest))
    monkeypatch.setattr(install, "ADDRESS", (tmp_path / "pulumi").as_uri())
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE", "official")
    return archive


def test_the_programs_of_pulumis_archive_are_kept_under_its_version(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path, monkeypatch)
    expected = Engine(own_folder / f"official-{VERSION}" / "bin", VERSION, "official")
    assert locate.ensure(lambda _: None) == expected
    assert locate.installed() == expected
    assert {path.name for path in expected.folder.iterdir()} == {"pulumi", HOST}
    assert not list(own_folder.glob("*.partial"))


def test_half_of_an_official_installation_is_not_kept(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path, monkeypatch, host=False)
    with pytest.raises(EngineError, match="its installation is incomplete or too old"):
        locate.ensure(lambda _: None)
    assert [path.name for path in own_folder.iterdir()] == ["lock"]


def test_an_archive_with_another_checksum_is_not_run(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = offer(tmp_path, monkeypatch)
    monkeypatch.setattr(install, "SHA256", dict.fromkeys(install.SHA256, "0" * 64))
    with pytest.raises(EngineError) as failed:
        locate.ensure(lambda _: None)
    got = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert f"has another SHA-256\n     got: {got}\n     expected: {'0' * 64}\n     hint: do not run" in str(
        failed.value
    )
    assert [path.name for path in own_folder.iterdir()] == ["lock"]


def test_the_archive_is_unpacked_by_a_python_without_filters_for_archives(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Debian 12 has Python 3.11.2, and the filters came with 3.11.4.
    def extractall(archive: tarfile.TarFile, path: str | Path = ".") -> None:
        for member in archive:
            archive.extract(member, path)

    offer(tmp_path, monkeypatch)
    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    monkeypatch.delattr(tarfile, "data_filter")
    assert locate.ensure(lambda _: None).folder == own_folder / f"official-{VERSION}" / "bin"
