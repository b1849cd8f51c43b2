"""Errors of commands for scripts and for users with several files. No error contains a secret."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu_ci.cli.conftest import STACK, Ask

Stack = Callable[..., str]
GPU_CI = str(Path(sys.executable).with_name("gpu-ci"))
SECRET = "hunter2hunter2"
of_stacks = pytest.mark.parametrize("command", ["check", "cost", "quota"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            "catalog --region us-centrall1",
            {
                "text": "gpu-ci catalog list: Invalid value for '--region': unknown region with a GPU 'us-centrall1'",
                "hint": "did you mean us-central1?",
            },
        ),
        (
            "check g2-standard-8 --python three",
            {"text": "gpu-ci check: --python: is no version of Python", "got": "'three'", "expected": "such as 3.12"},
        ),
        ("chek", {"text": "gpu-ci: no command 'chek'", "hint": "did you mean check?"}),
    ],
)
def test_with_json_a_wrong_question_is_a_document_and_text_too(ask: Ask, words: str, problem: dict[str, str]) -> None:
    answer = ask(*words.split(), "--json")
    assert (answer.code, answer.json) == (2, {"error": {"problems": [problem]}})
    assert answer.err == ask(*words.split()).err
    assert answer.err.startswith(problem["text"])


@of_stacks
def test_an_invalid_file_does_not_stop_the_others_and_sets_the_exit_code(ask: Ask, stack: Stack, command: str) -> None:
    stack(name="Pulumi.a.yaml", text="config: [\n")
    stack(name="Pulumi.b.yaml", text="just words\n")
    stack(name="Pulumi.c.yaml")
    answer = ask(command)
    assert answer.code == 2
    assert [line for line in answer.err.splitlines() if not line.startswith(" ")] == [
        "Pulumi.a.yaml:2:1: is not valid YAML: expected the node content, but found '<stream end>'",
        "Pulumi.b.yaml: is not a stack file",
    ]
    assert "Pulumi.c.yaml" in answer.out
    first, second, third = ask(command, "--json").json
    problem = {"text": answer.err.splitlines()[0], "line": 2, "column": 1}
    assert first == {"file": "Pulumi.a.yaml", "error": {"problems": [problem]}}
    assert second["error"]["problems"][0]["text"] == "Pulumi.b.yaml: is not a stack file"
    assert (third["file"], "error" in third) == ("Pulumi.c.yaml", False)
    assert ask(command, "Pulumi.c.yaml", "Pulumi.a.yaml").code == 1


UNREADABLE = {
    "a bracket that is not closed": f"config:\n  token: [{SECRET}\n  other: 1\n",
    "an alias of nothing": f"config:\n  token: *{SECRET}\n",
    "a tag of nobody": f"config:\n  token: !{SECRET} x\n",
    "a number that is none": f"config:\n  token: !!int {SECRET}\n",
    "bytes that are none": f"config:\n  token: !!binary {SECRET}é\n",
    "a colon without a space": f"config: {{token:{SECRET}}}\n",
    "an escape there is not": f'config:\n  token: "\\q{SECRET}"\n',
}


@pytest.mark.parametrize("fault", UNREADABLE)
def test_nothing_of_a_line_that_cannot_be_read_is_shown(ask: Ask, stack: Stack, fault: str) -> None:
    answer = ask("check", stack(text=UNREADABLE[fault]), "--json")
    assert answer.code == 1
    assert answer.err.startswith("Pulumi.dev.yaml:")
    assert ": is not valid YAML: " in answer.err
    assert SECRET not in answer.out + answer.err


MISPLACED = {
    "where a pool should be": (("    l4:\n", f"    token: {SECRET}\n    l4:\n"),),
    "where pools should be": ((STACK[STACK.index("    l4:") :], ""), ("gpu-ci:pools:", f"gpu-ci:pools: {SECRET}")),
    "in JSON that is none": (
        (STACK[STACK.index("    l4:") :], ""),
        ("gpu-ci:pools:", f"gpu-ci:pools: '{json.dumps({'l4': {'token': SECRET}})[:-1]}'"),
    ),
    "under an unknown key": (("max: 4", f"max: 4\n      token: {SECRET}"),),
}
IN_QUOTAS = {
    "where quotas should be": (("gpu-ci:pools:", f"gpu-ci:quotas: {SECRET}\n  gpu-ci:pools:"),),
    "under no region": (("gpu-ci:pools:", f"gpu-ci:quotas: {{token: {SECRET}}}\n  gpu-ci:pools:"),),
}


@pytest.mark.parametrize(
    ("command", "place"),
    [(command, place) for command in ("check", "cost", "quota") for place in MISPLACED]
    + [(command, place) for command in ("check", "quota") for place in IN_QUOTAS],
)
def test_a_value_nobody_knows_what_to_make_of_is_not_shown(ask: Ask, stack: Stack, command: str, place: str) -> None:
    name = stack(*(MISPLACED | IN_QUOTAS)[place])
    for words in ((command, name), (command, name, "--json")):
        answer = ask(*words)
        assert answer.code == 1
        assert SECRET not in answer.out + answer.err


def test_the_keys_that_are_not_checked_are_named(ask: Ask, stack: Stack) -> None:
    name = stack(
        ("  gcp:project", "  aws:region: eu-central-1\n  gcp:project"), text=f"encryptionsalt: v1:x\nmine: 1\n{STACK}"
    )
    assert ask("check", name).out.splitlines()[-1] == ("Pulumi.dev.yaml: not checked here: mine, aws:region")
    assert ask("check", name, "--json").json[0]["unchecked"] == ["mine", "aws:region"]


@pytest.mark.parametrize("words", ["catalog", "check g2-standard-8 --json", "--help"])
def test_an_answer_that_cannot_be_written_is_one_line_and_ends_with_2(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run([GPU_CI, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (
        2,
        "gpu-ci: the output cannot be written: No space left on device\n",
    )


def test_with_json_a_package_that_is_not_installed_is_a_document_too() -> None:
    code = "import sys; sys.modules['click'] = None; from gpu_ci.cli.main import main; main(['catalog', '--json'])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    [problem] = json.loads(answer.stdout)["error"]["problems"]
    assert (answer.returncode, problem["hint"].partition(":")[0]) == (2, "install gpu-ci with the extra cli")
    assert answer.stderr.startswith(f"{problem['text']}\n")
