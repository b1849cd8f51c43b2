"""Tests of reports from digests that the user created."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.compare.read_digests import read
from gpu_preview.errors import PreviewError


def written(folder: Path, name: str, **document: Any) -> str:
    (folder / name).write_text(json.dumps(document))
    return str(folder / name)


def test_a_stack_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "prod.json", steps=[])
    with pytest.raises(PreviewError) as refused:
        read([f"prod={file}", f"dev={file}", f"prod={file}"], tmp_path, None)
    assert str(refused.value) == f"--digest prod={file}: prod has two digests\n  expected: one for each stack"


def test_the_hint_for_another_file_does_not_write_over_it(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {}\n")
    with pytest.raises(PreviewError) as refused:
        read([f"dev={tmp_path / 'Pulumi.dev.yaml'}"], tmp_path, None)
    assert str(refused.value).endswith(
        "Pulumi.dev.yaml: is not what `pulumi preview --json` prints\n"
        "  hint: pulumi preview --json --show-sames --stack dev > a-new-file.json"
    )


def test_an_object_that_is_no_preview_is_no_clean_bill(tmp_path: Path) -> None:
    with pytest.raises(PreviewError, match="expected: `steps`, or `changeSummary`"):
        read([f"dev={written(tmp_path, 'any.json', a=1)}"], tmp_path, None)


def test_a_preview_of_another_stack_is_refused(tmp_path: Path) -> None:
    step = {"op": "same", "urn": "urn:pulumi:prod::p::a:b/c:D::e"}
    with pytest.raises(PreviewError) as refused:
        read([f"dev={written(tmp_path, 'dev.json', steps=[step])}"], tmp_path, None)
    assert str(refused.value).endswith("dev.json: belongs to another stack\n  got: prod\n  expected: dev")
