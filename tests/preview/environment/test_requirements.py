"""Tests of the lines of an untrusted lock: installed or refused."""

from __future__ import annotations

import pytest
from gpu_preview.environment.requirements import rejected_lines

FINE = """# a lock
pulumi==3.272.0 \\
    --hash=sha256:00ab \\
    --hash=sha256:11cd
pulumi-gcp[extra]>=10,<11 ; python_version < "3.13"  # why
six (>= 1.16, <2)
torch==2.9.1+cu129 ; platform_machine == 'x86_64'

grpcio
"""


def test_names_with_versions_markers_and_hashes_are_fine() -> None:
    assert rejected_lines(FINE, "") == []


@pytest.mark.parametrize(
    "line",
    [
        "./evil",
        "evil @ file:///somewhere/evil",
        "evil @ https://example.com/evil.whl",
        "git+https://example.com/evil.git",
        "https://example.com/evil-1-py3-none-any.whl",
        "evil.whl",
        "evil.tar.gz",
        "Evil.ZIP[extra]==1",
        "-e .",
        "--editable ./evil",
        "-r others.txt",
        "-c limits.txt",
        "--index-url https://example.com/simple",
        "--extra-index-url=https://example.com/simple",
        "--no-binary :all:",
        "--no-binary=evil",
        "--find-links ./wheels",
        "pulumi==3.272.0 --config-settings=x=y",
        "pulumi==3.272.0 --global-option=x",
        "/somewhere/evil",
        "~/evil",
        "evil==1.0+a.zip",
        "evil===$HOME",
        "evil==1; os_name == 'posix' --no-binary=evil",
        "evil==1 --hash=md5:00",
        "evil" + "!=" * 900,
        "evil==1 --hash=sha256:00--no-binary=evil",
        "--find-links https://example.com/a --no-binary :all:",
    ],
)
def test_lines_that_run_code_or_name_other_sources_are_refused(line: str) -> None:
    assert rejected_lines(FINE + line + "\n", "") == [line]


def test_an_index_that_the_base_has_is_fine_and_nothing_else_of_it() -> None:
    base = "--extra-index-url https://example.com/torch\n-r others.txt\n./mine\n--no-binary :all:\n-f ./wheels\n"
    assert rejected_lines(base, base) == ["-r others.txt", "./mine", "--no-binary :all:", "-f ./wheels"]
    assert rejected_lines("--extra-index-url https://example.com/other\n", base) == [
        "--extra-index-url https://example.com/other"
    ]


def test_a_comment_does_not_go_on_in_the_next_line() -> None:
    """pip and uv read a `\\` at the end of a comment differently."""
    assert rejected_lines("# a comment \\\n-e .\nsix==1.17.0 # another \\\n", "") == [
        "# a comment \\", "-e .", "six==1.17.0 # another \\",
    ]  # fmt: skip


def test_a_list_without_an_end_is_refused() -> None:
    assert rejected_lines("six\n" * 100_001, "") == ["100001 lines, more than 100000"]
