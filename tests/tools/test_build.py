"""`make build`: mistakes in its options, without a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import build

POOLS = {"gpu-tests": {"kind": "cloud-build-gpu"}, "l4": {"kind": "gce-runners"}}


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--folder", "missing", "build: --folder is not a folder\n  got: missing\n"),
        ("--pool", "l4", "build: no such pool of kind cloud-build-gpu: l4\n  got: gpu-tests\n"),
    ],
)
def test_a_wrong_option_submits_no_build(
    option: str,
    value: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (build.ENDPOINT, "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    monkeypatch.setattr(build, "_pools", lambda _: POOLS)
    monkeypatch.setattr(build, "Project", None)
    monkeypatch.setattr("sys.argv", ["build", option, value])
    assert build.main() == 2
    printed = capsys.readouterr().err
    assert printed.startswith(problem)
    assert [line.partition(": ")[0] for line in printed.splitlines()[1:]] == ["  got", "  expected", "  hint"]


def test_an_unknown_example_is_an_error_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["build", "--example", "broken"])
    with pytest.raises(SystemExit) as ended:
        build.main()
    assert ended.value.code == 2
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert "'broken'" in last_line
    assert [name for name in build.EXAMPLES if f"'{name}'" not in last_line] == []
