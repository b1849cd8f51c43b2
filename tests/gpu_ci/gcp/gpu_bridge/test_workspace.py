"""The archive of a workspace: what it contains, its digest, and the artifacts that come back."""

from __future__ import annotations

import gzip
import io
import os
import random
import subprocess
import tarfile
from pathlib import Path

import pytest
from gpu_ci.gcp.gpu_bridge.failures import BridgeError
from gpu_ci.gcp.gpu_bridge.workspace import Source, pack, unpack_artifacts


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def packed(folder: Path, target: Path, log: list[str] | None = None, limit_mib: int = 10) -> Source:
    return pack(folder, target, limit_mib, (log if log is not None else []).append)


def files(source: Source) -> list[str]:
    with tarfile.open(source.path) as archive:
        return [member.name for member in archive if not member.isdir()]


def refused(folder: Path, target: Path, limit_mib: int = 10) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        packed(folder, target, limit_mib=limit_mib)
    return caught.value


NAMES = (
    "a.txt",
    "build/x.o",
    "build/keep/y.o",
    "src/b.py",
    "src/build/z.o",
    "src/deep/c d.py",
    "#file",
    "!file",
    "x[1]",
)
PATTERNS = (
    "*.o", "build", "build/", "/build", "src/*", "src/**", "**/build/", "*", "!*/", "!*.py", "!src/", "!build/keep/",
    "src/deep", "/*.txt", "[ab].*", "?.txt", "\\#file", "\\!file", "x\\[1\\]", "c d.py", "c d.py ", "src/*/c d.py",
    "#file", "*/", "/*/", "src/*/", "**",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_git_leaves_the_same_files(tmp_path: Path, folder: Path, seed: int) -> None:
    patterns = "".join(f"{line}\n" for line in random.Random(seed).sample(PATTERNS, 4))
    write(folder, *NAMES)
    (tmp_path / "patterns").write_text(patterns)
    subprocess.run(["git", "init", "-q", str(tmp_path / "git")], check=True)
    git = ["git", f"--git-dir={tmp_path}/git/.git", f"--work-tree={folder}", "ls-files", "-z", "--others"]
    listed = subprocess.run([*git, f"--exclude-from={tmp_path}/patterns"], cwd=folder, capture_output=True, check=True)
    expected = sorted(filter(None, listed.stdout.decode().split("\0")))
    (folder / ".gcloudignore").write_text(patterns + ".gcloudignore\n")
    if expected:
        assert sorted(files(packed(folder, tmp_path / "a"))) == expected, patterns
    else:
        assert refused(folder, tmp_path / "a").name == "bad-workspace"


def test_a_git_repository_without_gcloudignore_sends_what_git_tracks(tmp_path: Path, folder: Path) -> None:
    write(folder, ".git/HEAD", "out/x", "kept.py")
    (folder / ".gitignore").write_text("out/\n")
    assert files(packed(folder, tmp_path / "a")) == ["kept.py", "test.py"]


@pytest.mark.parametrize("line", ["#!include:../secrets", "#!include:/etc/passwd", "#!include:missing"])
def test_an_include_outside_the_folder_is_refused(tmp_path: Path, folder: Path, line: str) -> None:
    (folder / ".gcloudignore").write_text(f"{line}\n")
    assert refused(folder, tmp_path / "a").name == "bad-workspace"


def test_the_same_content_has_the_same_digest_at_another_time_and_place(tmp_path: Path, folder: Path) -> None:
    write(folder, "b/c.py", "a.py")
    (folder / "a.py").chmod(0o755)
    first = packed(folder, tmp_path / "one").sha256
    copy = tmp_path / "copy"
    write(copy, "a.py", "b/c.py")
    (copy / "test.py").write_text((folder / "test.py").read_text())
    (copy / "a.py").chmod(0o700)
    os.utime(copy / "b/c.py", (1, 1))
    assert packed(copy, tmp_path / "two").sha256 == first
    (copy / "a.py").chmod(0o644)
    assert packed(copy, tmp_path / "three").sha256 != first


def test_links_stay_links_and_a_link_to_the_outside_is_left_out(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "secret").write_text("key")
    write(folder, "data/x")
    (folder / "inside").symlink_to("data/x")
    (folder / "data/up").symlink_to("../test.py")
    (folder / "folder").symlink_to("data", target_is_directory=True)
    (folder / "outside").symlink_to("../secret")
    (folder / "absolute").symlink_to(tmp_path / "secret")
    (folder / "above").symlink_to(tmp_path, target_is_directory=True)
    log: list[str] = []
    source = packed(folder, tmp_path / "a", log)
    with tarfile.open(source.path) as archive:
        links = {member.name: member.linkname for member in archive if member.issym()}
    assert links == {"inside": "data/x", "data/up": "../test.py", "folder": "data"}
    assert [line.split()[0] for line in log] == ["above", "absolute", "outside"]
    assert b"key" not in gzip.decompress(source.path.read_bytes())


def test_a_workspace_over_the_limit_is_refused(tmp_path: Path, folder: Path) -> None:
    write(folder, "small")
    (folder / "data").mkdir()
    (folder / "data/large").write_bytes(bytes(3 * 2**20))
    error = refused(folder, tmp_path / "a", limit_mib=2)
    assert (error.name, error.detail) == ("bad-workspace", "it has more than 2 MiB")
    assert ".gcloudignore" in str(error)


def archive_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


@pytest.mark.parametrize(
    "member",
    [
        (tarfile.TarInfo("../outside"), b"x"),
        (tarfile.TarInfo("a/../../outside"), b"x"),
        link("escape", "../.."),
        link("escape", "/etc"),
        link("hard", "../secret", tarfile.LNKTYPE),
        link("device", "", tarfile.CHRTYPE),
    ],
)
def test_artifacts_never_leave_the_workspace(
    tmp_path: Path, folder: Path, member: tuple[tarfile.TarInfo, bytes]
) -> None:
    (tmp_path / "secret").write_text("key")
    with pytest.raises(BridgeError, match="the artifacts could not be returned"):
        unpack_artifacts(archive_of(tmp_path / "a", member), folder, ["**"], 10, 100)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "secret", "workspace"]


@pytest.mark.parametrize(("limit_files", "limit_bytes"), [(1, 100), (10, 5)])
def test_artifacts_over_a_limit_are_refused(tmp_path: Path, folder: Path, limit_files: int, limit_bytes: int) -> None:
    members = ((tarfile.TarInfo(name), b"123") for name in ("a", "b"))
    with pytest.raises(BridgeError):
        unpack_artifacts(archive_of(tmp_path / "a", *members), folder, ["*"], limit_files, limit_bytes)


def test_long_names_and_links_lead_to_no_file_outside(tmp_path: Path, folder: Path) -> None:
    """CVE-2025-4517: os.path.realpath stops at a path that is too long, so a check with it misses the last link."""
    secret = tmp_path / "secret"
    secret.write_text("key")
    long, steps, path, members = "d" * 247, "abcdefghijklmnop", "", []
    for step in steps:
        members += [_folder(f"{path}{long}"), link(f"{path}{step}", long)]
        path += f"{long}/"
    deep = f"{'/'.join(steps)}/{'l' * 254}"
    members += [link(deep, "../" * len(steps)), link("escape", f"{deep}/../secret")]
    members += [link("hard", "escape", tarfile.LNKTYPE), (tarfile.TarInfo("hard"), b"overwritten")]
    with pytest.raises(BridgeError, match="the artifacts could not be returned"):
        unpack_artifacts(archive_of(tmp_path / "a", *members), folder, ["**"], 100, 100)
    assert secret.read_text() == "key"


def _folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member, b""


@pytest.mark.parametrize(
    ("pattern", "name", "selected"),
    [
        ("dist/*.whl", "dist/a.whl", True),
        ("dist/*.whl", "dist/sub/a.whl", False),
        ("reports/**/*.xml", "reports/a.xml", True),
        ("reports/**/*.xml", "reports/gpu/0/a.xml", True),
        ("reports/**/*.xml", "reports/gpu/0/a.txt", False),
        ("reports", "reports/gpu/a.txt", True),
        ("./reports/", "reports/a.txt", True),
        ("*", ".git/hooks/post-checkout", True),
        ("out", ".git/hooks/post-checkout", False),
    ],
)
def test_only_files_that_artifact_selects_are_unpacked(
    tmp_path: Path, folder: Path, pattern: str, name: str, selected: bool
) -> None:
    archive = archive_of(tmp_path / "a", (tarfile.TarInfo(name), b"x"))
    if selected:
        assert unpack_artifacts(archive, folder, [pattern], 10, 100) == 1
        assert (folder / name).read_bytes() == b"x"
    else:
        with pytest.raises(BridgeError, match="which --artifact does not name"):
            unpack_artifacts(archive, folder, [pattern], 10, 100)
        assert not (folder / name).exists()


def test_an_artifact_replaces_a_file_and_keeps_its_mode_and_a_link_leads_down(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (folder / "tool").symlink_to("../secret")
    tool = tarfile.TarInfo("tool")
    tool.mode = 0o4755
    archive = archive_of(
        tmp_path / "a", (tool, b"#!"), (tarfile.TarInfo("lib/a.so.1"), b"so"), link("lib/a.so", "a.so.1")
    )
    assert unpack_artifacts(archive, folder, ["tool", "lib"], 10, 100) == 3
    assert ((folder / "tool").read_text(), (folder / "tool").stat().st_mode & 0o7777) == ("#!", 0o755)
    assert (folder / "lib/a.so").read_text() == "so"
    assert (tmp_path / "secret").read_text() == "key"
    (folder / "lib").rename(folder / "real")
    (folder / "lib").symlink_to("real")
    with pytest.raises(BridgeError, match="is a link"):
        unpack_artifacts(archive, folder, ["tool", "lib"], 10, 100)
