"""The place, the reason and the hint for stack files that are not valid YAML."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.gpu_ci.cli.conftest import Ask

Stack = Callable[..., str]
SPACE = ("a space is missing after a colon", "write key: value, with a space after the colon")
COLON = ("a colon is missing after a key", "write key: value, or key: with the entries below it")
INDENTATION = "indent all keys of one map alike, and the keys below them deeper"

MISTAKES: dict[str, tuple[tuple[tuple[str, str], ...], str, str, str]] = {
    "no space after a colon": ((("machineType: ", "machineType:"),), "6:7", *SPACE),
    "no colon after a key": ((("max: 4", "max 4"),), "9:7", *COLON),
    "two colons": (
        (("market: spot", "market: spot: yes"),),
        "8:19",
        "a value with a colon and a space needs quotes",
        "write the value in quotes",
    ),
    "a key that is too deep": (
        (("      max: 4", "        max: 4"),),
        "9:9",
        "the indentation is wrong, or a line above lacks a colon, or a space after a colon or dash",
        INDENTATION,
    ),
    "an open quote": (
        (("market: spot", "market: 'spot"),),
        "8:15",
        "a quote is not closed",
        "close the quote that begins here",
    ),
    "a second document": (
        (("    l4:", "---\n    l4:"),),
        "4:1",
        "the file has a second document",
        "remove the line ---: a stack file is one document",
    ),
    "a key that is there twice": (
        (("market: spot", "max: 3"),),
        "9:7",
        "the key max is a duplicate of line 8",
        "remove one of the two, or give one of them another name",
    ),
    "a merge conflict": (
        (("      max: 4", "<<<<<<< HEAD\n      max: 4\n=======\n      max: 5\n>>>>>>> more"),),
        "9:1",
        "the file has a merge conflict",
        "resolve what Git marked between <<<<<<< and >>>>>>>",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_has_the_line_of_the_mistake_and_a_hint(ask: Ask, stack: Stack, mistake: str) -> None:
    changes, place, reason, hint = MISTAKES[mistake]
    answer = ask("check", stack(*changes))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"Pulumi.dev.yaml:{place}: is not valid YAML: {reason}\n  hint: {hint}\n"
