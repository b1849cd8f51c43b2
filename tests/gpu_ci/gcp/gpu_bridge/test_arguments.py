"""The command line of a step: what it accepts, and each mistake with one cause and one hint."""

from __future__ import annotations

import json
from threading import Event
from typing import Any

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gpu_bridge import __main__ as program
from gpu_ci.gcp.gpu_bridge.arguments import parse
from gpu_ci.gcp.gpu_bridge.failures import BY_NAME, BridgeError

from tests.gpu_ci.gcp.gpu_bridge.bridge import BUCKET
from tests.gpu_ci.gcp.gpu_bridge.faulty_storage import Fault, FaultyServer

DIGEST = "a" * 64
SETTINGS: dict[str, Any] = {
    "project": "acme-ci",
    "name": "l4",
    "template": "projects/acme-ci/regions/us-central1/instanceTemplates/l4-1",
    "rungs": [{"zone": "us-central1-a", "market": "spot", "machine_type": "g2-standard-8"}],
    "bucket": BUCKET,
    "max": 4,
}
COMMAND = ["--", "pytest", "-m", "gpu"]
GIVEN = ["run", "--settings", f"gs://{BUCKET}/bridge.json"]
ENVIRON = {"BUILD_ID": "7f2c-1", "LOCATION": "us-central1", "TOKEN": "x"}


def parsed(*arguments: str, settings: Any = SETTINGS, **environ: str) -> Any:
    text = settings if isinstance(settings, str) else json.dumps(settings)
    return parse(arguments, {**ENVIRON, **environ}, lambda *_: text)


def mistake(*arguments: str, **options: Any) -> str:
    with pytest.raises(BridgeError) as caught:
        parsed(*arguments, **options)
    assert caught.value.name == "bad-input"
    assert caught.value.hint
    return caught.value.detail


def test_the_example_of_the_documentation_is_accepted() -> None:
    settings, options = parsed(
        *GIVEN, "--timeout", "600", "--artifact", "dist/*.whl", "--artifact", "reports/**/*.xml", "--env", "TOKEN",
        "--env", "SEED=7", "--image", f"us-docker.pkg.dev/acme/images/cuda@sha256:{DIGEST}",
        "--retry-preempted", *COMMAND,
    )  # fmt: skip
    assert (settings.max, settings.places()[0].zone, settings.check_sec) == (4, "us-central1-a", 1200)
    assert options.command == ["pytest", "-m", "gpu"]
    assert (options.timeout_sec, options.build, options.region) == (600, "7f2c-1", "us-central1")
    assert options.artifacts == ["dist/*.whl", "reports/**/*.xml"]
    assert (options.environment, options.retries_preempted) == ({"TOKEN": "x", "SEED": "7"}, True)


def test_settings_of_a_newer_component_are_left_out() -> None:
    """A build may use an older program than the pool."""
    assert parsed(*GIVEN, *COMMAND, settings={**SETTINGS, "newer": {"a": 1}}) == parsed(*GIVEN, *COMMAND)


def test_options_of_the_command_are_not_options_of_the_step() -> None:
    _, options = parsed(*GIVEN, "--timeout", "14400", "--", "pytest", "--timeout", "x", "--", "a")
    assert (options.command, options.timeout_sec) == (["pytest", "--timeout", "x", "--", "a"], 14_400)


BAD: list[tuple[str, list[str]]] = [
    ("the command is not after --; got: nothing", ["--"]),
    ("the command is not after --; got: extra", ["extra", *COMMAND]),
    ("arguments: unrecognized arguments; got: --retry", ["--retry", *COMMAND]),
    ("arguments: argument --timeout; got: invalid int value: '30m'", ["--timeout", "30m", *COMMAND]),
    ("--timeout is not between 1 and 14400 seconds; got: 0", ["--timeout", "0", *COMMAND]),
    ("--timeout is not between 1 and 14400 seconds; got: 14401", ["--timeout", "14401", *COMMAND]),
    ("--image has no digest; got: nvidia/cuda:12.9", ["--image", "nvidia/cuda:12.9", *COMMAND]),
    ("--artifact is not a pattern of files in the workspace; got: /etc/x", ["--artifact", "/etc/x", *COMMAND]),
    ("--artifact is not a pattern of files in the workspace; got: ../x", ["--artifact", "../x", *COMMAND]),
    ("--artifact is not a pattern of files in the workspace; got: a/**.x", ["--artifact", "a/**.x", *COMMAND]),
    ("--env is not set in the step; got: MISSING", ["--env", "MISSING", *COMMAND]),
    ("--env is not the name of a variable; got: 1", ["--env", "1=hidden", *COMMAND]),
    ("--settings is not the address of an object; got: bridge.json", ["--settings", "bridge.json", *COMMAND]),
]


@pytest.mark.parametrize(("text", "arguments"), BAD)
def test_a_mistake_has_one_cause_and_one_hint(text: str, arguments: list[str]) -> None:
    assert mistake(*GIVEN, *arguments) == text


@pytest.mark.parametrize("settings", ["{", "[]", "{}", json.dumps({**SETTINGS, "bucket": None})[:-8]])
def test_an_object_that_is_no_settings_of_a_bridge_is_one_mistake(settings: str) -> None:
    assert mistake(*GIVEN, *COMMAND, settings=settings).startswith("--settings are not the settings of a bridge (")


@pytest.mark.parametrize("environ", [{"BUILD_ID": ""}, {"BUILD_ID": "Build 1"}, {"LOCATION": "us central"}])
def test_a_step_needs_the_variables_of_cloud_build(environ: dict[str, str]) -> None:
    expected = f"{next(iter(environ))} is not the value that Cloud Build gives to a step; got: "
    assert mistake(*GIVEN, *COMMAND, **environ).startswith(expected)


def test_a_mistake_starts_no_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("GoogleCompute", "GoogleBuilds", "GoogleStorage"):
        monkeypatch.setattr(program, name, None)
    monkeypatch.setattr(program, "cancellation", Event)
    for arguments in ([], ["start"], ["run"], ["reap"], ["reap", "extra", "--project", "a"], [*GIVEN, "--", "true"]):
        assert program.main(arguments) == 200
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("gpu-ci: an argument or a setting of the step is wrong: ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError("forbidden", "Forbidden", 403), 208),
        (ApiError("QUOTA_EXCEEDED", "Quota exceeded.", 403), 202),
        (BridgeError("preempted", "gone"), 203),
        (ZeroDivisionError("division by zero"), 214),
    ],
)
def test_a_failure_of_the_bridge_is_printed_with_its_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> int:
        raise error

    monkeypatch.setattr(program, "_run", fails)
    monkeypatch.setattr(program, "cancellation", Event)
    assert program.main([*GIVEN, *COMMAND]) == code
    assert capsys.readouterr().err.endswith(f"\n  exit code: {code}\n")


@pytest.mark.parametrize(("faults", "problem"), [([], "does not exist"), ([Fault(status=403)], "cannot be read (")])
def test_settings_that_cannot_be_read_are_one_mistake(
    clients: None, storage: FaultyServer, faults: list[Fault], problem: str
) -> None:
    storage.faults = faults
    with pytest.raises(BridgeError) as caught:
        parse([*GIVEN, *COMMAND], ENVIRON, program._settings_text)
    assert caught.value.detail.startswith(f"--settings {problem}")
    assert "output serviceAccountEmail" in str(caught.value)


def test_each_failure_has_its_own_exit_code_outside_those_of_commands_and_signals() -> None:
    codes = [failure.code for failure in BY_NAME.values()]
    assert len(set(codes)) == len(codes) == 15
    # A shell returns 128 + n after signal n, and Linux has signals up to 64.
    assert all(192 < code <= 255 for code in codes)
