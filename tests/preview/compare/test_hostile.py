"""Tests of hostile pull requests: the report shows the error, and no secret leaks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from gpu_preview.compare.compare import Request, compare
from gpu_preview.environment.packages import Packages
from gpu_preview.errors import PreviewError
from gpu_preview.git.repository import Repository
from gpu_preview.isolation.limits import Limits
from gpu_preview.model import Report, Status
from gpu_preview.report import markdown

from tests.conftest import ROOT
from tests.preview import small
from tests.preview.conftest import keep_bases
from tests.preview.repository import commit, git

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

PLANTED = "planted-4f1c9a"
# It collects all that it can read, writes to what later stacks are held to, and leaves a process behind.
EVERYTHING = """
import json, os, subprocess, sys
from pathlib import Path
import pulumi, pulumi_gcp as gcp
found = [json.dumps(dict(os.environ))]
for path in PATHS:
    try:
        found.append(Path(path).read_text())
    except OSError as error:
        found.append(str(error))
for entry in Path("/proc").iterdir():
    try:
        found.append((entry / "environ").read_bytes().decode(errors="replace"))
    except OSError:
        pass
print("\\n".join(found))
pulumi.log.warn("\\n".join(found))
gcp.storage.Bucket("logs", location="EU", labels={"found": "".join(found)[:40]})
for number, text in enumerate(found):
    pulumi.export(f"found{number}", text)
try:
    (Path(os.environ["TMPDIR"]).parent / "base" / "__main__.py").write_text("")
    pulumi.export("wrote", 1)
except OSError as error:
    pulumi.export("refused", error.strerror)
quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(777)"], start_new_session=True, **quiet)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository in a home folder with secrets. The environment variables have more secrets."""
    if shutil.which("bwrap") is None and "CI" not in os.environ:
        pytest.skip("bubblewrap is not installed")
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text(PLANTED)
    monkeypatch.setenv("HOME", str(home))
    for name in ("GITHUB_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD"):
        monkeypatch.setenv(name, PLANTED)
    folder = small.repository(tmp_path / "home" / "work" / "repository")
    with (folder / ".git" / "config").open("a") as file:
        file.write(f"[planted]\n\ttoken = {PLANTED}\n")
    return folder


def faces(report: Report) -> str:
    """Return a report in all its forms."""
    return report.model_dump_json() + markdown.render(report)


@pytest.mark.slow
def test_one_that_tries_everything_finds_no_secret_writes_nothing_and_leaves_no_process(place: Path) -> None:
    paths = [str(place / ".git" / "config"), str(place.parents[1] / ".aws" / "credentials"), "/proc/1/environ"]
    small.change(place, EVERYTHING.replace("PATHS", repr(paths)))
    report = small.ask(place)
    [stack] = report.stacks
    assert stack.status == Status.PREVIEWED
    assert stack.counts.update == 1
    assert PLANTED not in faces(report)
    assert [wall.name for wall in report.walls if not wall.stands] == []
    outputs = {each.path: each.after for each in stack.outputs}
    assert outputs["refused"] == '"Read-only file system"'
    assert "wrote" not in outputs
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if b"time.sleep(777)" in command]


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_and_reported(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_bases(tmp_path / "worlds", monkeypatch)
    small.change(place)
    assert small.ask(place).exit_code == 0  # the base is kept, so that the limit is for the head alone
    small.change(place, "import time\ntime.sleep(3600)\n")
    report = small.ask(place, Limits(timeout_sec=15))
    [stack] = report.stacks
    assert (stack.status, report.exit_code) == (Status.FAILED, 1)
    assert "the program took longer than 15 s (--timeout-sec)" in stack.error


@pytest.mark.slow
def test_one_that_writes_over_what_is_read_afterwards_changes_nothing_outside(place: Path) -> None:
    """The program replaces the engine's event log and its own stack file by links."""
    program = (
        "import os\nfrom pathlib import Path\n"
        "for path in [*Path(os.environ['TMPDIR']).parent.glob('*.events'), Path('Pulumi.dev.yaml')]:\n"
        f"    path.unlink(missing_ok=True)\n    path.symlink_to({str(place / '.git' / 'config')!r})\n"
        "import pulumi_gcp as gcp\ngcp.storage.Bucket('logs', location='US')\n"
    )
    small.change(place, program)
    report = small.ask(place)
    assert PLANTED not in faces(report)
    assert report.stacks[0].counts.replace == 1


@pytest.mark.slow
def test_one_whose_packages_would_run_code_is_reported_on_and_installs_nothing(place: Path, tmp_path: Path) -> None:
    (place / "requirements.txt").write_text("pulumi\n")
    commit(place, "a lock")
    git(place, "checkout", "-q", "-f", "-B", "change", "main")
    (place / "requirements.txt").write_text("./evil\n")
    (place / "evil").mkdir()
    (place / "evil" / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    commit(place, "another lock")
    git(place, "checkout", "-q", "-f", "main")
    report = small.ask(place)
    [stack] = report.stacks
    assert (stack.status, report.exit_code) == (Status.FAILED, 1)
    assert "requirements.txt: has lines that are not installed" in stack.error
    assert "got: ./evil" in stack.error
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_one_that_brings_an_environment_of_its_own_has_it_replaced(place: Path, tmp_path: Path) -> None:
    """The committed interpreter would run without isolation, and files would be written through committed links."""
    git(place, "checkout", "-q", "-f", "-B", "change", "main")
    shutil.rmtree(place / ".venv")
    (place / ".venv" / "bin").mkdir(parents=True)
    (place / ".venv" / "bin" / "python").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\nexit 1\n")
    (place / ".venv" / "bin" / "python").chmod(0o755)
    packages = place / ".venv" / "lib" / "python3zz" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "_side.pth").symlink_to(place / ".git" / "config")
    git(place, "add", "-f", ".venv")
    commit(place, "an environment")
    git(place, "checkout", "-q", "-f", "main")
    Packages(ROOT, ROOT).provide_environment(place)
    before = (place / ".git" / "config").read_text()
    [stack] = small.ask(place).stacks
    assert (stack.status, stack.counts.same) == (Status.PREVIEWED, 1)
    assert not (tmp_path / "ran").exists()
    assert (place / ".git" / "config").read_text() == before


@pytest.mark.usefixtures("no_engine")
def test_one_that_makes_its_project_a_link_is_refused(place: Path, tmp_path: Path) -> None:
    """Stack files would be read and written at the target of the link."""
    git(place, "checkout", "-q", "-f", "-B", "deep", "main")
    (place / "infra").mkdir()
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "__main__.py"):
        git(place, "mv", name, f"infra/{name}")
    commit(place, "in a folder")
    victim = tmp_path / "victim"
    shutil.copytree(place / "infra", victim)
    git(place, "checkout", "-q", "-f", "-B", "change", "deep")
    shutil.rmtree(place / "infra")
    (place / "infra").symlink_to(victim)
    commit(place, "a link")
    git(place, "checkout", "-q", "-f", "deep")
    before = (victim / "Pulumi.dev.yaml").read_text()
    request = Request(base="deep", head="change")
    with pytest.raises(PreviewError, match=r"^head \([0-9a-f]{10}\): infra is a symbolic link, or below one$"):
        compare(request, Repository.find(place / "infra"), lambda _: None)
    assert (victim / "Pulumi.dev.yaml").read_text() == before
