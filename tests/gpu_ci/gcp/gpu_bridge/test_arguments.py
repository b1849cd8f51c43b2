"""The command line of a step: what it accepts, and each mistake with one cause and one hint."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gpu_bridge import __main__ as program
from gpu_ci.gcp.gpu_bridge.arguments import BadInput, parse, parse_reap
from gpu_ci.gcp.gpu_bridge.build import refused
from gpu_ci.gcp.gpu_bridge.failures import BY_NAME, BridgeError
from gpu_ci.gcp.gpu_bridge.ladder import rungs
from gpu_ci.gcp.gpu_bridge.storage import GoogleStorage
from gpu_ci.gcp.resource_names import Project, Zone
from pulumi_sandbox.providers.gcp.object_storage import Fault, StorageServer
from pydantic import TypeAdapter

DIGEST = "a" * 64
SETTINGS: dict[str, Any] = {
    "project": "acme-ci",
    "name": "l4",
    "template": "projects/acme-ci/regions/us-central1/instanceTemplates/l4-1",
    "zones": ["us-central1-a", "us-central1-b"],
    "bucket": "acme-gpu-bridge",
    "max": 4,
}
COMMAND = ["--", "pytest", "-m", "gpu"]
GIVEN = ["run", "--settings", "gs://b/bridge.json"]
ENVIRON = {"BUILD_ID": "7f2c-1", "LOCATION": "us-central1", "TOKEN": "x"}


def parsed(*arguments: str, settings: Any = SETTINGS, **environ: str) -> Any:
    text = settings if isinstance(settings, str) else json.dumps(settings)
    return parse(arguments, {**ENVIRON, **environ}, lambda *_: text)


def test_the_example_of_the_documentation_is_accepted(tmp_path: Path) -> None:
    settings, options = parsed(
        *GIVEN, "--timeout", "600", "--artifact", "dist/*.whl", "--artifact", "reports/**/*.xml", "--env", "TOKEN",
        "--env", "SEED=7", "--image", f"us-docker.pkg.dev/acme/images/cuda@sha256:{DIGEST}", "--dir", str(tmp_path),
        "--retry-preempted", *COMMAND,
    )  # fmt: skip
    assert (settings.max, settings.zones, settings.check_sec) == (4, ["us-central1-a", "us-central1-b"], 1200)
    assert options.command == ["pytest", "-m", "gpu"]
    assert (options.timeout_sec, options.build, options.region) == (600, "7f2c-1", "us-central1")
    assert options.artifacts == ["dist/*.whl", "reports/**/*.xml"]
    assert (options.environment, options.retries_preempted) == ({"TOKEN": "x", "SEED": "7"}, True)


def test_a_zone_or_template_of_a_flag_replaces_the_ladder() -> None:
    ladder = changed(rungs=[{"zone": "us-central1-b", "machine_type": "g2-standard-8", "market": "spot"}])
    found = [
        [each.zone for each in rungs(parsed(*GIVEN, *flags, *COMMAND, settings=ladder)[0])]
        for flags in ((), ("--zone", "us-central1-c"), ("--template", SETTINGS["template"]))
    ]
    assert found == [["us-central1-b"], ["us-central1-c"], ["us-central1-a", "us-central1-b"]]


def test_flags_replace_settings() -> None:
    settings, _ = parsed(*GIVEN, "--zone", "us-central1-c", "--max", "2", "--bucket", "other-bucket", *COMMAND)
    assert (settings.zones, settings.max, settings.bucket) == (["us-central1-c"], 2, "other-bucket")


def test_a_step_without_a_settings_object_needs_only_flags() -> None:
    flags = [f"--{name}={SETTINGS[name]}" for name in ("project", "name", "template", "bucket")]
    settings, _ = parsed("run", *flags, "--zone", "us-central1-a", *COMMAND)
    assert (settings.project, settings.max) == ("acme-ci", 1)


def test_settings_of_a_newer_component_are_left_out() -> None:
    """A build may use an older program than the pool."""
    rung = {"zone": "us-central1-b", "machine_type": "g2-standard-8", "market": "spot"}
    newer = changed(newer={"a": 1}, rungs=[{**rung, "newer": 1}])
    assert parsed(*GIVEN, *COMMAND, settings=newer) == parsed(*GIVEN, *COMMAND, settings=changed(rungs=[rung]))


def test_the_longest_time_limit_of_the_bridge_is_accepted() -> None:
    assert parsed(*GIVEN, "--timeout", "14400", *COMMAND)[1].timeout_sec == 14_400


def test_options_of_the_command_are_not_options_of_the_step() -> None:
    _, options = parsed(*GIVEN, "--", "pytest", "--timeout", "x", "--", "a")
    assert (options.command, options.timeout_sec) == (["pytest", "--timeout", "x", "--", "a"], 1800)


def changed(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in {**SETTINGS, **settings}.items() if value is not None}


# The machine reads a request of at most 1 MiB.
BIG = [part for number in range(10) for part in ("--env", f"V{number}={'x' * 110_000}")]
BAD: list[tuple[str, list[str], Any]] = [
    ("command: is missing", [], SETTINGS),
    ("command: is missing", ["--"], SETTINGS),
    ("command: is missing", ["--", ""], SETTINGS),
    ("command: is too long", ["--", "x" * 200_001], SETTINGS),
    ("command: has a zero byte", ["--", "a\0b"], SETTINGS),
    ("arguments: are unknown", ["extra", *COMMAND], SETTINGS),
    ("arguments: are unknown\n  got: --unknown\n", ["--unknown", *COMMAND], SETTINGS),
    ("arguments: argument --timeout: expected one argument", ["--timeout", *COMMAND], SETTINGS),
    ("arguments: are unknown\n  got: --retry\n", ["--retry", *COMMAND], SETTINGS),
    ("arguments: are too long: the command, --env and --artifact together", [*BIG, *COMMAND], SETTINGS),
    ("arguments: are too long: the command, --env and --artifact together", ["--", "é" * 199_999], SETTINGS),
    ("--timeout: is not a whole number above 0", ["--timeout", "30m", *COMMAND], SETTINGS),
    ("--timeout: is not a whole number above 0", ["--timeout", "0", *COMMAND], SETTINGS),
    ("--timeout: is not a whole number above 0", ["--timeout=-5", *COMMAND], SETTINGS),
    ("--timeout: is not a whole number above 0", ["--timeout", "9" * 5000, *COMMAND], SETTINGS),
    ("--timeout: is longer than the bridge allows", ["--timeout", "14401", *COMMAND], SETTINGS),
    ("--image: has no digest", ["--image", "nvidia/cuda:12.9", *COMMAND], SETTINGS),
    ("--image: has no digest", ["--image", f"CUDA@sha256:{DIGEST}", *COMMAND], SETTINGS),
    ("--artifact: is not a path in the workspace", ["--artifact", "/etc/passwd", *COMMAND], SETTINGS),
    ("--artifact: is not a path in the workspace", ["--artifact", "../x", *COMMAND], SETTINGS),
    ("--artifact: is not a path in the workspace", ["--artifact", "", *COMMAND], SETTINGS),
    ("--artifact: is not a valid pattern", ["--artifact", "dist/**.whl", *COMMAND], SETTINGS),
    ("--env: is not set in the step", ["--env", "MISSING", *COMMAND], SETTINGS),
    ("--env: is not the name of a variable", ["--env", "1=2", *COMMAND], SETTINGS),
    ("--env: is given twice", ["--env", "A=1", "--env", "A=2", *COMMAND], SETTINGS),
    ("--dir: is not a folder", ["--dir", "/missing", *COMMAND], SETTINGS),
    ("--build: is not the id of a build", ["--build", "Build 1", *COMMAND], SETTINGS),
    ("--region: is not a region", ["--region", "us central", *COMMAND], SETTINGS),
    ("--settings: is not the address of an object", ["--settings", "bridge.json", *COMMAND], SETTINGS),
    ("--max: is not a whole number above 0", ["--max", "many", *COMMAND], SETTINGS),
    ("gs://b/bridge.json: is not JSON", COMMAND, "{"),
    ("gs://b/bridge.json: is not a map\n  got: list\n  expected: a map", COMMAND, []),
    ("gs://b/bridge.json: max: is not valid\n  got: 0\n  expected: a whole number above 0", COMMAND, changed(max=0)),
    (
        "gs://b/bridge.json: zones: is not valid\n  got: []\n  expected: a list of texts that is not empty",
        COMMAND,
        changed(zones=[]),
    ),
    (
        "gs://b/bridge.json: labels: is not valid\n  got: {'a': 1}\n  expected: a map of texts",
        COMMAND,
        changed(labels={"a": 1}),
    ),
    ("gs://b/bridge.json: max: is not valid\n  got: True\n", COMMAND, changed(max=True)),
    ("settings: are incomplete", COMMAND, changed(bucket=None)),
    ("gs://b/bridge.json: rungs: is not valid", COMMAND, changed(rungs=[{"zone": "us-central1-a"}])),
    (
        "zone of the bridge: is in another region than the template",
        COMMAND,
        changed(rungs=[{"zone": "us-east1-b", "machine_type": "g2-standard-8", "market": "spot"}]),
    ),
    ("project of the bridge: is not valid", COMMAND, changed(project="Acme CI")),
    ("name of the bridge: is not valid", COMMAND, changed(name="L4")),
    ("bucket of the bridge: is not valid", COMMAND, changed(bucket="gs://acme")),
    ("template of the bridge: is not valid", COMMAND, changed(template="l4-1")),
    ("zone of the bridge: is not a zone", COMMAND, changed(zones=["us-central1"])),
    ("zone of the bridge: is in another region than the template", COMMAND, changed(zones=["europe-west4-a"])),
]


@pytest.mark.parametrize(("text", "arguments", "settings"), BAD)
def test_a_mistake_has_one_cause_and_one_hint(text: str, arguments: list[str], settings: Any) -> None:
    with pytest.raises(BadInput) as caught:
        parsed(*GIVEN, *arguments, settings=settings)
    [mistake] = caught.value.mistakes
    assert str(mistake).startswith(text)
    names = [line.partition(": ")[0] for line in str(mistake).splitlines()[1:]]
    assert names == ["  got", "  expected", "  hint"]
    assert all((mistake.problem, mistake.expected, mistake.hint))


BAD_PROGRAM: list[tuple[str, list[str]]] = [
    ("arguments: the following arguments are required: action\n  got: nothing\n", []),
    ("arguments: name an unknown command of the program\n  got: start\n", ["start"]),
    ("arguments: are unknown\n  got: extra\n", ["reap", "extra"]),
    ("--project: is missing\n  got: nothing\n", ["reap"]),
    ("--project: is not valid\n  got: Acme CI\n", ["reap", "--project", "Acme CI"]),
    ("--project: is not valid\n  got: an empty text\n", ["reap", "--project", ""]),
    ("--bridge: is not valid\n  got: L 4\n", ["reap", "--project", "acme-ci", "--bridge", "L 4"]),
]


@pytest.mark.parametrize(("text", "arguments"), BAD_PROGRAM)
def test_a_mistake_in_the_command_of_the_program_or_in_reap_asks_google_nothing(
    text: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("GoogleCompute", "GoogleBuilds", "GoogleStorage"):
        monkeypatch.setattr(program, name, None)
    monkeypatch.setattr(program, "cancellation", Event)
    assert program.main(arguments) == 200
    printed = capsys.readouterr().err
    assert printed.startswith(f"gpu-ci: the step has one mistake, and started no machine\n{text}")
    assert [line.partition(": ")[0] for line in printed.splitlines()[2:]] == ["  got", "  expected", "  hint"]


def test_the_value_of_a_variable_is_in_no_message() -> None:
    with pytest.raises(BadInput) as caught:
        parsed(*GIVEN, "--env", "A=hidden-1", "--env", "A=hidden-2", "--env", "1=hidden-3", "--env", "NONE", *COMMAND)
    assert len(caught.value.mistakes) == 3
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("project", ["acme-ci", "example.com:acme-ci"])
@pytest.mark.parametrize("zone", ["us-central1-a", "us-central1-ai1a"])
def test_each_project_and_zone_of_a_pool_is_accepted_by_the_step(project: str, zone: str) -> None:
    template = f"projects/{project}/regions/us-central1/instanceTemplates/l4-1"
    for kind, value in ((Project, project), (Zone, zone)):
        TypeAdapter(kind).validate_python(value)
    settings, _ = parsed(*GIVEN, *COMMAND, settings=changed(project=project, template=template, zones=[zone]))
    assert (settings.project, settings.zones) == (project, [zone])
    assert parse_reap(["reap", "--project", project]) == (project, "*")


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        parsed(
            *GIVEN, "--timeout", "x", "--image", "cuda", "--artifact", "/a", "--env", "NONE", "--dir", "/no",
            settings=changed(zones=["a", "b"]),
        )  # fmt: skip
    where = [mistake.where for mistake in caught.value.mistakes]
    assert where == ["command", "--timeout", "--image", "--artifact", "--env", "--dir", *["zone of the bridge"] * 2]


def test_a_step_with_mistakes_asks_google_nothing_and_ends_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "GoogleCompute", None)
    monkeypatch.setattr(program, "GoogleStorage", None)
    monkeypatch.delenv("BUILD_ID", raising=False)
    monkeypatch.setattr(program, "cancellation", Event)
    assert program.main(["run", "--timeout", "x"]) == 200
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gpu-ci: the step has 4 mistakes, and started no machine\ncommand: is missing\n")


def test_a_mistake_of_the_program_itself_has_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> int:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(program, "_run", fails)
    monkeypatch.setattr(program, "cancellation", Event)
    assert program.main([*GIVEN, *COMMAND]) == 214
    printed = capsys.readouterr().err
    assert printed.startswith("gpu-ci: the step itself failed: ZeroDivisionError in test_arguments.py, line ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError("forbidden", "Forbidden", 403), 208),
        (ApiError("QUOTA_EXCEEDED", "Quota exceeded.", 403), 202),
        (BridgeError("preempted", "gone"), 203),
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


def test_settings_that_do_not_exist_are_one_mistake(clients: None, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[GoogleStorage] = []

    def storage(bucket: str) -> GoogleStorage:
        opened.append(GoogleStorage(bucket))
        return opened[-1]

    monkeypatch.setattr(program, "GoogleStorage", storage)
    with pytest.raises(BadInput) as caught:
        parse(["run", "--settings", "gs://acme-gpu-bridge/no.json", *COMMAND], ENVIRON, program._settings_text)
    opened[0].close()
    assert [str(each).splitlines()[0] for each in caught.value.mistakes] == ["--settings: does not exist"]


def test_a_build_with_another_service_account_is_told_which_one_it_needs(
    clients: None, storage: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.storage.faults = [Fault(status=403)]
    opened = GoogleStorage("acme-gpu-bridge")
    monkeypatch.setattr(program, "GoogleStorage", lambda _: opened)
    with pytest.raises(BadInput) as caught:
        parse(["run", "--settings", "gs://acme-gpu-bridge/bridge.json", *COMMAND], ENVIRON, program._settings_text)
    opened.close()
    [mistake] = caught.value.mistakes
    assert mistake.problem.startswith("cannot be read (")
    assert "output serviceAccountEmail" in mistake.hint
    assert "output serviceAccountEmail" in str(refused(ApiError("forbidden", "Forbidden", 403)))


def test_each_failure_has_its_own_exit_code_outside_those_of_commands_and_signals(
    capsys: pytest.CaptureFixture[str],
) -> None:
    codes = [failure.code for failure in BY_NAME.values()]
    assert len(set(codes)) == len(codes) == 15
    # A shell returns 128 + n after signal n, and Linux has signals up to 64.
    assert all(192 < code <= 255 for code in codes)
    with pytest.raises(SystemExit):
        parsed("run", "--help")
    text = capsys.readouterr().out
    assert all(f"{failure.code}  {failure.cause}: {failure.hint}" in text for failure in BY_NAME.values())


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--artifacts", "a.xml", *COMMAND], "did you mean --artifact?"),
        (["--time=5", *COMMAND], "did you mean --timeout?"),
        (["sh", "-c", "ls"], "write -- before the command; "),
    ],
)
def test_an_unknown_argument_has_the_hint_that_corrects_it(arguments: list[str], hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        parsed(*GIVEN, *arguments)
    [mistake] = caught.value.mistakes
    assert mistake.hint.startswith(hint)
