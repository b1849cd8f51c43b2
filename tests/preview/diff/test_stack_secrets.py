"""Tests of stack files with secrets that cannot be decrypted here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from gpu_preview.diff.stack_secrets import replace_secrets
from gpu_preview.errors import PreviewError


def test_a_secret_becomes_a_placeholder_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(
        "secretsprovider: gcpkms://projects/p\nencryptedkey: abc\nconfig:\n  gcp:project: p\n"
        "  app:token: {secure: v1:AAA}\n  app:other: {secure: v1:BBB}\n"
        "  app:nested: {list: [a, {secure: v1:AAA}], key: {secure: v1:CCC}, plain: 1}\n"
    )
    found = replace_secrets(file)
    assert list(found) == ["app:token", "app:other", "app:nested.list[1]", "app:nested.key"]
    assert found["app:token"] == found["app:nested.list[1]"] != found["app:other"]
    assert all(value.startswith("placeholder-of-a-secret-") and "v1:" not in value for value in found.values())
    assert yaml.safe_load(file.read_text()) == {
        "config": {"gcp:project": "p", "app:nested": {"list": ["a", "placeholder-of-a-secret"], "plain": 1}}
    }


def test_a_map_that_has_more_than_a_ciphertext_is_no_secret_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    more = {"secure": "x", "other": "y"}
    file.write_text(
        yaml.safe_dump({"config": {"app:token": {"secure": "v1:AAA"}, "app:map": {"a": more, "b": [more]}}})
    )
    assert list(replace_secrets(file)) == ["app:token"]
    assert yaml.safe_load(file.read_text()) == {"config": {"app:map": {"a": more, "b": [more]}}}


def test_a_file_without_secrets_keeps_every_other_line(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text("# why\nconfig:\n  a: 1 # that\nencryptionsalt: v1:abc\n")
    assert replace_secrets(file) == {}
    assert file.read_text() == "# why\nconfig:\n  a: 1 # that\n"


ALIASES = (
    "a: &a0 [x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(40)) + "config: {b: *a40}\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "config: [", "", "[]", "\x00", "config: 4\n", "a: " + "[" * 1000, ALIASES, "config: &a {b: *a}\n",
        "config: {a: 2026-99-99, b: {secure: x}}\n", "config: {a: !!int '', b: {secure: x}}\n",
        "config: {b: {secure: x}}\n#" + "x" * 300_000,
        "config: {a: 0x" + "f" * 6_000 + ", b: {secure: x}}\n",
        "config: {a: 1" + ":1" * 120_000 + ", b: {secure: x}}\n",
        "config: {a: !!float '" + "1" * 300 + "', b: {secure: x}}\n", 'config: {b: {secure: "\\ud800"}}\n',
        'config: {"a:\\ud800": {secure: x}}\n', 'config: {"a:\\0": {secure: x}}\n',
    ],
    ids=range(17),
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_left_to_the_engine(tmp_path: Path, text: str) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(text)
    assert replace_secrets(file) == {}
    assert file.read_text() == text


def test_more_secrets_than_one_command_takes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    text = "config:\n" + "".join(f"  a:k{number}: {{secure: x}}\n" for number in range(1_001))
    file.write_text(text)
    with pytest.raises(PreviewError, match=r"^Pulumi\.dev\.yaml: has 1001 secrets\n  expected: at most 1000$"):
        replace_secrets(file)
    file.write_text(text.replace("  a:k0: {secure: x}\n", ""))
    assert len(replace_secrets(file)) == 1_000


def test_a_secret_under_a_longer_path_than_one_command_takes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text("config:\n  ? " + "ä" * 501 + "\n  : {secure: x}\n")
    with pytest.raises(PreviewError, match=r"has a secret under a path of 1002 bytes\n  expected: at most 1000$"):
        replace_secrets(file)
    file.write_text("config:\n  ? " + "ä" * 500 + "\n  : {secure: x}\n")
    assert list(replace_secrets(file)) == ["ä" * 500]


def test_neither_a_pipe_nor_a_link_is_read_or_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Pulumi.pipe.yaml")
    (tmp_path / "mine").write_text("config:\n  a: {secure: v1:AAA}\n")
    (tmp_path / "Pulumi.link.yaml").symlink_to(tmp_path / "mine")
    assert [replace_secrets(tmp_path / f"Pulumi.{name}.yaml") for name in ("pipe", "link")] == [{}, {}]
    assert "v1:AAA" in (tmp_path / "mine").read_text()
