"""Which lines of a lock may be installed from where nobody trusts it."""

from __future__ import annotations

import pytest
from gpu_preview.requirements import refused

FINE = """# a lock
pulumi==3.272.0 \\
    --hash=sha256:00ab \\
    --hash=sha256:11cd
pulumi-gcp[extra]>=10,<11 ; python_version < "3.13"  # why

grpcio
"""


def test_names_with_versions_markers_and_hashes_are_fine() -> None:
    assert refused(FINE, "") == []


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
    ],
)
def test_what_runs_code_or_leads_elsewhere_is_refused(line: str) -> None:
    assert refused(FINE + line + "\n", "") == [line]


def test_a_line_that_is_continued_is_one_line() -> None:
    assert refused("pulumi==3.272.0 \\\n  --no-binary=x\n", "") == ["pulumi==3.272.0    --no-binary=x"]


def test_an_index_that_the_base_has_is_fine_and_nothing_else_of_it() -> None:
    base = "--extra-index-url https://example.com/torch\n-r others.txt\n./mine\n--no-binary :all:\n"
    assert refused(base, base) == ["-r others.txt", "./mine", "--no-binary :all:"]
    assert refused("--extra-index-url https://example.com/other\n", base) == [
        "--extra-index-url https://example.com/other"
    ]
