"""Tests of stack files with secrets that cannot be decrypted here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_preview.compare.checkout import replace_secrets
from gpu_preview.diff.differences import (
    ANOTHER_MAYBE,
    MAYBE_SECRET,
    between,
    engine_diffs,
    exposes_secret,
    reported,
)
from gpu_preview.errors import PreviewError
from gpu_preview.model import Severity

from ..danger_cases import CREATE, SECRET, UPDATE, found


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


PLAIN = "hunter2"
MOVED = {
    "a named part behind a new first one": (
        [{"name": "TOKEN", "value": SECRET}, {"name": "LEVEL", "value": "info"}],
        [{"name": "LEVEL", "value": "debug"}, {"name": "TOKEN", "value": PLAIN}],
    ),
    "a named part that is renamed": ([{"name": "A", "value": SECRET}], [{"name": "B", "value": PLAIN}]),
    "a part in front that goes": ([SECRET, "--v"], ["--v", PLAIN]),
    "the one part that stays": (["a", SECRET], [PLAIN]),
    "another key": ({"old": SECRET}, {"new": PLAIN}),
    "a part that becomes the whole": ({"a": SECRET}, PLAIN),
    "a list that becomes the whole": ([SECRET], PLAIN),
    "a part higher up": ({"a": {"b": SECRET}}, {"a": PLAIN}),
    "a text of JSON": ('{"a": "[secret]"}', f'{{"b": "{PLAIN}"}}'),
}


@pytest.mark.parametrize(("before", "after"), MOVED.values(), ids=MOVED)
def test_a_secret_that_is_plain_somewhere_else_is_reported_and_never_shown(before: Any, after: Any) -> None:
    changes = list(between({"env": before}, {"env": after}))
    assert changes
    assert PLAIN not in repr(changes)
    [*findings] = found("my:own:Thing", UPDATE, {"env": before}, {"env": after})
    assert {each.rule for each in findings} == {"secret-exposed"}
    assert PLAIN not in repr(findings)


@pytest.mark.parametrize(("before", "after"), MOVED.values(), ids=MOVED)
def test_a_plain_value_that_becomes_secret_at_another_path_is_not_shown(before: Any, after: Any) -> None:
    assert PLAIN not in repr(list(between({"env": after}, {"env": before})))


def test_the_engine_names_places_and_the_values_there_are_hidden_too() -> None:
    before, after = MOVED["a named part behind a new first one"]
    named = {"detailedDiff": {"env[0].value": {"inputDiff": True}, "env[1].value": {"inputDiff": True}}}
    changes = reported({"inputs": {"env": before}}, {"inputs": {"env": after}}, engine_diffs(named))
    assert [(each.path, each.before, each.after) for each in changes] == [
        ("env[0].value", SECRET, "[was secret, not shown]"),
        ("env[1].value", '"info"', MAYBE_SECRET),
    ]


def test_two_values_that_are_hidden_are_still_seen_to_differ() -> None:
    before, after = {"a": SECRET, "b": "x"}, {"a": "y", "b": SECRET, "c": "z"}
    [*changes] = between({"p": {**before, "d": 1}}, {"p": {**after, "d": 2}})
    assert [(each.path, each.before, each.after) for each in changes if each.path == "p.d"] == [
        ("p.d", MAYBE_SECRET, ANOTHER_MAYBE)
    ]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ({"a": SECRET, "b": "x"}, {"a": SECRET, "b": "y"}, ('"x"', '"y"')),  # the secret stays where it is
        ({"a": SECRET, "b": "x", "c": "k"}, {"b": "k", "c": "k"}, ('"x"', '"k"')),  # it was plain before
        ({"a": SECRET, "b": False}, {"b": True}, ("false", "true")),  # no secret is one of two values
    ],
)
def test_a_value_that_cannot_be_the_secret_is_shown(before: Any, after: Any, shown: tuple[str, str]) -> None:
    [change] = [each for each in between({"p": before}, {"p": after}) if each.path == "p.b"]
    assert (change.before, change.after) == shown


def test_a_secret_that_only_goes_is_no_concern() -> None:
    assert not exposes_secret({"a": SECRET, "b": 1}, {"b": 1})
    assert found("my:own:Thing", UPDATE, {"env": {"a": SECRET, "b": "x"}}, {"env": {"b": "x"}}) == []


def test_a_possible_secret_is_a_warning_and_a_certain_one_is_a_danger() -> None:
    [maybe] = found("my:own:Thing", UPDATE, {"env": {"a": SECRET}}, {"env": {"b": PLAIN}})
    assert (maybe.severity, maybe.text) == (
        Severity.WARNING,
        "Thing x: env loses a secret and gets a new plain value: make sure that the plain value is not the secret",
    )
    [surely] = found("my:own:Thing", UPDATE, {"env": {"a": SECRET}}, {"env": {"a": PLAIN}})
    assert surely.severity == Severity.DANGER


@pytest.mark.parametrize("operation", [CREATE, UPDATE])
def test_a_value_that_the_stack_file_encrypts_is_a_danger_where_it_is_used_as_plain_text(operation: Any) -> None:
    inputs = {"labels": {"k": "a-placeholder-of-a-secret-df909d96"}}
    [finding] = found("my:own:Thing", operation, {}, inputs)
    assert finding.severity == Severity.DANGER
    assert finding.text == "Thing x: labels.k has a value as plain text that the stack file encrypts"
    assert found("my:own:Thing", UPDATE, inputs, {**inputs, "b": 1}) == []  # as it was
    [change, *_] = between({}, inputs)
    assert change.after == '{"k": "a-(a secret, in plain)"}'
