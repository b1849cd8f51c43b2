"""Tests of `gpu-ci preview` and `gpu-ci drift` without a report: exit codes, files and messages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from gpu_ci.cli.main import run
from gpu_ci.cli.output import InputError
from gpu_preview.cli import output as shell
from gpu_preview.engine.program import Engine
from gpu_preview.errors import PreviewError
from gpu_preview.git.repository import Repository
from gpu_preview.model import Counts, Stack, Status
from gpu_preview.report import markdown

from tests.preview import reports
from tests.preview.reports import report, stack
from tests.preview.repository import commit


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with one stack in a repository without a commit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    subprocess.run(["git", "init", "-q", "."], check=True)
    Path("Pulumi.yaml").write_text("name: ci\nruntime: python\n")
    Path("Pulumi.dev.yaml").write_text("config: {}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["preview"], "Missing option '--base'"),
        (["preview", "--nothing"], "gpu-ci preview: No such option"),
        (["preview", "--base", "main", "--memory-gib", "none"], "'none' is not a valid float"),
        (["preview", "--base", "main"], "no commit named 'HEAD'"),
        (["preview", "--base", "main", "--output", "Pulumi.yaml/x"], "cannot be written"),
        *(
            (["preview", "--base", "main", option, value], f"'{value}' is not a finite number")
            for option in ("--timeout-sec", "--memory-gib", "--disk-gib", "--max-usd-month")
            for value in ("nan", "inf")
        ),
        (["preview", "--base", "main", "--memory-gib", "-inf"], "is not in the range x>=0.1"),
        (["preview", "--base", "main", "--max-usd-month", "-1"], "is not in the range x>=0"),
        (["drift", "--timeout-sec", "nan"], "'nan' is not a finite number"),
        (["drift", "--nothing"], "gpu-ci drift: No such option"),
        (["drift", "--timeout-sec", "0"], "gpu-ci drift: Invalid value"),
    ],
)
def test_every_mistake_ends_with_one_because_two_is_an_answer(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 1
    printed = capsys.readouterr()
    assert problem in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("words", [["preview", "--base", "HEAD"], ["drift"]])
def test_a_folder_that_takes_no_report_is_known_before_anything_runs(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(*_: object, **__: object) -> None:
        raise AssertionError("it ran")

    for name in ("compare.compare.compare", "compare.drift.drift"):
        monkeypatch.setattr(f"gpu_preview.{name}", ran)
    assert run([*words, "--output", "/proc/report"]) == 1
    assert "/proc/report: cannot be written" in capsys.readouterr().err


def test_in_github_actions_the_report_is_added_to_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_preview.compare.compare.compare", lambda *_: reports.FAILED)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert run(["preview", "--base", "main"]) == 1
    assert not (tmp_path / "summary.md").exists()
    assert run(["preview", "--base", "main", "--annotate"]) == 1
    assert (tmp_path / "summary.md").read_text() == markdown.render(reports.FAILED) + "\n"


def test_without_a_required_isolation_no_file_is_written(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(project, "one")
    monkeypatch.setattr(Engine, "find", lambda _: Engine("3.259.0", "build", project / "pulumi", (), project))
    monkeypatch.setattr("shutil.which", lambda _: None)

    def exported(*_: object) -> None:
        raise AssertionError("a side was written")

    monkeypatch.setattr(Repository, "export", exported)
    assert run(["preview", "--base", "HEAD", "--require-walls"]) == 1
    assert "the head's code cannot be isolated: bubblewrap: it is not installed" in capsys.readouterr().err


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "report"
    shell.write(folder, reports.NOTHING, "the first")
    before = {file.name: file.read_text() for file in folder.iterdir()}
    assert set(before) == {"report.md", "report.json"}

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdopen", full)
    with pytest.raises(Exception, match=r"cannot be written\n  got: No space left on device"):
        shell.write(folder, reports.FAILED, "the second")
    assert {file.name: file.read_text() for file in folder.iterdir()} == before


def test_nothing_of_a_message_is_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\n::error::b\r\n \t::c\x1b[31m ##[error]d\r::e\ud800 f::g"
    assert shell.without_commands(text) == "a\n: :error::b\n \t: :c\\u001b[31m # #[error]d\\r::e\\ud800 f::g"
    assert len(shell.without_commands("a" * 100_000)) == 20_000
    shell.progress("gpu-ci preview")("a\n::error::b")
    assert capsys.readouterr().err.endswith(" s  a\n: :error::b\n")


def test_nothing_of_an_error_is_obeyed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*_: object) -> None:
        raise PreviewError("what\n::error::INJECTED ##[error]INJECTED")

    monkeypatch.setattr("gpu_preview.compare.compare.compare", refused)
    assert run(["preview", "--base", "main", "--json"]) == 1
    output = capsys.readouterr()
    assert output.err.endswith("gpu-ci preview: what\n: :error::INJECTED # #[error]INJECTED\n")
    assert "##[" not in output.out


def test_a_report_as_json_has_nothing_that_is_obeyed_and_says_the_same() -> None:
    report = reports.NOTHING.model_copy(update={"made_by": "##[error]x"})
    assert "##[" not in shell.to_json(report)
    assert json.loads(shell.to_json(report))["madeBy"] == "##[error]x"


def test_a_link_that_a_commit_brought_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "report.md").symlink_to(outside)
    monkeypatch.setattr("secrets.token_hex", lambda _: "foreseen")
    (folder / ".report.json.foreseen").symlink_to(outside)
    with pytest.raises(InputError, match="cannot be written"):
        shell.write(folder, reports.NOTHING, "text")
    (folder / ".report.json.foreseen").unlink(missing_ok=True)
    shell.write(folder, reports.NOTHING, "text")
    assert outside.read_text() == "mine"
    assert (folder / "report.md").read_text() == "text"


@pytest.mark.parametrize("output", ["report", "report/below", "../checkout/report", "../to the checkout/report"])
def test_a_folder_behind_a_link_of_the_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    checkout = tmp_path / "checkout"
    (checkout / ".git").mkdir(parents=True)
    (checkout / "infra").mkdir()
    (tmp_path / "outside").mkdir()
    (checkout / "report").symlink_to(tmp_path / "outside")
    (tmp_path / "to the checkout").symlink_to(checkout)
    monkeypatch.chdir(checkout)
    with pytest.raises(InputError, match="is below a symbolic link in the checkout"):
        shell.write(Path(output), reports.NOTHING, "text")
    monkeypatch.chdir(checkout / "infra")
    shell.write(tmp_path / "to the checkout" / "new", reports.NOTHING, "text")
    assert [each.name for each in (tmp_path / "outside").iterdir()] == []
    assert (checkout / "new" / "report.md").read_text() == "text"


@pytest.mark.parametrize(
    ("worst", "code"),
    [
        (stack("dev"), 0),
        (stack("dev", counts=Counts(same=3)), 0),
        (stack("dev", status=Status.FAILED), 1),
        (stack("dev", status=Status.BASE_FAILED), 1),
        (stack("dev", counts=Counts(create=1)), 2),
        (stack("dev", counts=Counts(update=1, may_replace=1)), 2),
        (stack("dev", counts=Counts(same=1, moved=1)), 2),
        (stack("dev", outputs=(reports.changed("a", "1", "2"),)), 2),
        (stack("dev", counts=Counts(replace=1)), 3),
        (stack("dev", counts=Counts(delete=1)), 3),
        (stack("dev", status=Status.REMOVED), 3),
        (stack("dev", findings=(reports.JOBS_END,)), 0),
    ],
)
def test_the_worst_of_a_stack_is_the_code(worst: Stack, code: int) -> None:
    assert report(worst).exit_code == code
    assert report(worst, stack("other")).exit_code == code
