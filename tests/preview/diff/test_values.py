"""Tests of the text for a value in a report: no secret, and at most one line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_common import pulumi_wire
from gpu_preview.diff.placeholders import SECRET, UNKNOWNS
from gpu_preview.diff.values import UNKNOWN, as_json, in_digest_form, is_secret, short, shown

STRING = pulumi_wire.UNKNOWN_STRING


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        (4, "4"),
        (True, "true"),
        (None, "null"),
        (["a", 1], '["a", 1]'),
        ({"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
        ({"__defaults": ["name"], "a": {"__defaults": [], "b": 1}}, '{"a": {"b": 1}}'),
        ("é", '"é"'),
        ("a\x1b[2J\nb", '"a\\u001b[2J\\nb"'),
        (STRING, "(unknown)"),
        ({"id": STRING}, '{"id": "(unknown)"}'),
        ("[secret]", "[secret]"),
        ({"token": "[secret]"}, '{"token": "[secret]"}'),
    ],
)
def test_a_value_is_one_line_of_json(value: Any, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize("sentinel", sorted(UNKNOWNS))
def test_every_type_of_unknown_value_is_shown(sentinel: str) -> None:
    assert shown(sentinel) == UNKNOWN


def test_a_long_text_is_its_beginning_its_length_and_a_digest() -> None:
    assert short("x" * 160) == "x" * 160
    assert short("x" * 161) == "x" * 80 + "… (161 characters, sha256 fdb7f3c4)"
    assert short("x" * 160 + "y") != short("x" * 160 + "z")


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("[secret]", True),
        ({"a": [{"b": "[secret]"}]}, True),
        ("secret", False),
        ({"[secret]": 1}, False),
        (["[secret] "], False),
        (None, False),
    ],
)
def test_a_secret_is_known_wherever_it_is(value: Any, secret: bool) -> None:
    assert is_secret(value) is secret
    assert (SECRET in shown(value)) is (secret or "[secret]" in json.dumps(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1]", [1]),
        ("1", None),
        ('"a"', None),
        ("{", None),
        ("", None),
        (7, None),
        ("[" * 100_000, None),
    ],
)
def test_json_in_a_text_is_found_where_it_is_a_map_or_a_list(text: Any, value: Any) -> None:
    assert as_json(text) == value


def test_a_secret_of_the_configuration_in_an_output_is_reported_from_one_that_stays_secret() -> None:
    """The engine's log marks the secret value, and has its own word in the text."""
    secret = {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "ciphertext": "[secret]"}
    assert in_digest_form({"a": secret, "b": "[secret]", "c": "x-[secret]"}) == {
        "a": "[secret]",
        "b": "(a secret, in plain)",
        "c": "x-(a secret, in plain)",
    }
