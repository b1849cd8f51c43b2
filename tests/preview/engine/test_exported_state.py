"""Tests of exported states and of the removal of their secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gpu_ci.cli.commands import gpu_ci
from gpu_common import pulumi_wire
from gpu_preview import json_text
from gpu_preview.engine import digest, events, exported_state
from gpu_preview.engine.digest import DigestTooLargeError
from gpu_preview.engine.exported_state import ExportedState, strip
from gpu_preview.errors import PreviewError
from gpu_preview.json_text import TooMuchError
from pulumi_sandbox.providers import values

SIGNATURE = pulumi_wire.SIGNATURE
SECRET = {SIGNATURE: pulumi_wire.SECRET}
TOO_FEW_PARTS = ("", "::web", "::web::a:b:C")
STRIPPED = {**SECRET, "plaintext": '"[secret taken out of the state]"'}


def state(*resources: dict[str, Any], **more: Any) -> str:
    return json.dumps({"version": 3, "deployment": {"resources": list(resources), **more}})


def resource(name: str = "one", stack: str = "prod", **inputs: Any) -> dict[str, Any]:
    return {"urn": f"urn:pulumi:{stack}::web::a:b:C::{name}", "type": "a:b:C", "inputs": inputs}


def resources(found: ExportedState) -> list[Any]:
    return list(found.document["deployment"]["resources"])


def test_every_secret_goes_encrypted_or_not_and_the_rest_stays() -> None:
    given = {
        "cipher": {**SECRET, "ciphertext": "v1:AAAA"},
        "plain": {**SECRET, "plaintext": '"hunter2"'},
        "bare": SECRET,
        "within": {"list": [1, {**SECRET, "ciphertext": "v1:BBBB"}], "not": {SIGNATURE: "an asset's"}},
    }
    pending = [{"resource": resource("two"), "type": "creating"}]
    provider = {"type": "gcpkms", "state": {"encryptedkey": "abc"}}
    found = strip(state(resource(**given), secrets_providers=provider, pending_operations=pending))
    assert found.secrets == 4
    [kept] = resources(found)
    assert kept["inputs"] == {
        "cipher": STRIPPED,
        "plain": STRIPPED,
        "bare": STRIPPED,
        "within": {"list": [1, STRIPPED], "not": {SIGNATURE: "an asset's"}},
    }
    for secret in ("AAAA", "BBBB", "hunter2", "encryptedkey", "two"):
        assert secret not in found.text + found.for_sandbox


def outputs_of(given: dict[str, Any], **more: Any) -> Any:
    [kept] = resources(strip(state({**resource(), "outputs": given, **more})))
    return kept["outputs"]


def test_a_secret_in_a_json_text_goes_and_the_rest_of_the_text_stays() -> None:
    inner = [{"a": 1, "key": {**SECRET, "ciphertext": "v1:AAAA"}}, {**SECRET, "plaintext": '"hunter2"'}]
    outputs = outputs_of({"text": json.dumps(inner), "twice": json.dumps([json.dumps(inner)]), "other": '{"a": 1}'})
    assert json.loads(outputs["text"]) == [{"a": 1, "key": STRIPPED}, STRIPPED]
    assert json.loads(json.loads(outputs["twice"])[0]) == [{"a": 1, "key": STRIPPED}, STRIPPED]
    assert outputs["other"] == '{"a": 1}'


def test_a_text_with_a_secret_in_it_that_is_no_json_goes_as_a_whole() -> None:
    assert outputs_of({"text": f"key: {json.dumps(SECRET)}"}) == {"text": STRIPPED}


def test_an_output_that_its_resource_names_as_secret_goes_though_nothing_marks_it() -> None:
    given = {"password": "hunter2", "user": "admin", "marked": {**SECRET, "ciphertext": "v1:AAAA"}, "url": "hunter2"}
    outputs = outputs_of(given, additionalSecretOutputs=["password", "marked", "missing"])
    assert outputs == {"password": STRIPPED, "user": "admin", "marked": STRIPPED, "url": STRIPPED}


def test_a_text_that_is_a_secret_elsewhere_goes_too_where_it_is_long_enough_to_be_no_accident() -> None:
    secrets = {
        "a": {**SECRET, "plaintext": '"hunter2"'},
        "b": {**SECRET, "plaintext": '{"x": ["longer", 7], "y": "on"}'},
    }
    one = resource("one", **secrets, plain=["hunter2", {"x": "longer", "y": "on"}, "hunter2 and more"])
    two = {**resource("hunter2"), "id": "hunter2", "outputs": {"name": "hunter2"}, "parent": one["urn"]}
    two["importID"] = "hunter2"
    found = strip(state(one, two))
    assert resources(found)[0]["inputs"]["plain"] == [STRIPPED, {"x": STRIPPED, "y": "on"}, "hunter2 and more"]
    gone = "[secret taken out of the state]"
    assert resources(found)[1] == {**two, "id": gone, "importID": gone, "outputs": {"name": STRIPPED}}
    assert found.secrets == 7
    assert strip(found.text).document == found.document


def test_nothing_is_kept_but_the_version_and_the_deployment() -> None:
    given = {**json.loads(state()), "config": {"a": "hunter2"}}
    assert strip(json.dumps(given)).document == {"version": 3, "deployment": {"resources": []}}
    assert strip(json.dumps({**given, "version": "hunter2"})).document == {"deployment": {"resources": []}}


def test_a_state_larger_than_any_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MAX_VALUES", 10)
    with pytest.raises(PreviewError, match="is larger than any real state: it has more than 10 elements"):
        strip(state(*map(resource, "abc")))


def test_the_sandbox_knows_the_same_words() -> None:
    assert exported_state.STRIPPED == values.STRIPPED == json.loads(STRIPPED["plaintext"])


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "4", "{}", "[" * 100_000, '{"checkpoint": {"latest": {}}}'),
        *('{"deployment": 4}', '{"deployment": [1]}', '{"deployment": {"resources": 4}}'),
        *(
            f'{{"deployment": {{"resources": [{one}]}}}}'
            for one in ("4", "{}", '{"urn": 4}', *(f'{{"urn": "urn:pulumi:prod{rest}"}}' for rest in TOO_FEW_PARTS))
        ),
        '{"deployment": {"resources": [], "pending_operations": 7}}',
        state(resource()).replace("{}", "[" * 700 + "]" * 700),
        state(resource()).replace("{}", '{"a": 1e999}'),
        state({**resource(), "outputs": {}, "additionalSecretOutputs": [[]]}),
    ],
)
def test_anything_else_is_refused_in_words(text: str) -> None:
    with pytest.raises(PreviewError) as caught:
        strip(text, "prod")
    assert str(caught.value) == (
        "is not what `pulumi stack export` prints\n"
        "  expected: an object with deployment.resources\n"
        "  hint: pulumi stack export --stack prod > state.json"
    )


def test_the_state_of_another_stack_is_refused() -> None:
    with pytest.raises(PreviewError, match=r"^is the state of another stack\n  got: dev\n  expected: prod$"):
        strip(state(resource(), resource(stack="dev")), "prod")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(PreviewError, match="latin: is no text in UTF-8"):
        exported_state.read_all({"prod": tmp_path / "latin"})


def test_the_command_prints_what_may_be_handed_on_and_says_how_much_is_gone() -> None:
    done = CliRunner().invoke(gpu_ci, ["strip-state"], input=state(resource(key={**SECRET, "ciphertext": "v1:AAAA"})))
    assert done.exit_code == 0
    assert json.loads(done.stdout)["deployment"]["resources"][0]["inputs"] == {"key": STRIPPED}
    assert done.stderr == "gpu-ci strip-state: 1 secret removed\n"


def test_the_command_refuses_what_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hunter2")
    done = CliRunner().invoke(gpu_ci, ["strip-state", str(tmp_path / "notes")], standalone_mode=True)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is not what `pulumi stack export` prints" in done.output
    assert "hunter2" not in done.output


LARGER = "is larger than any real preview: "


def test_json_of_more_parts_than_anybodys_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json_text.read("[" + "{}," * 400_000 + "0]")[-1] == 0

    def parsed(*_: object, **__: object) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(json_text.json, "loads", parsed)
    for part in ("{},", "[],", "1,", '"[[",'):
        with pytest.raises(TooMuchError, match="it has more than 1,000,000 elements"):
            json_text.read("[" + part * 1_000_000 + "0]")


@pytest.mark.parametrize(("sign", "width"), [("a", 1), ("é", 2), ("\U0001f600", 4)])
def test_a_file_is_measured_as_memory_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str, width: int
) -> None:
    text = json.dumps(sign + "a" * 1000, ensure_ascii=False)
    (tmp_path / "file").write_text(text, encoding="utf-8")
    monkeypatch.setattr(json_text, "MAX_MIB", len(text.encode()) * width / 1024**2)
    assert json_text.read_file(tmp_path / "file") == sign + "a" * 1000
    monkeypatch.setattr(json_text, "MAX_MIB", (len(text.encode()) * width - 1) / 1024**2)
    with pytest.raises(TooMuchError, match=r"its text takes more than .* MiB of memory"):
        json_text.read_file(tmp_path / "file")


@pytest.mark.parametrize("part", ["steps", "diagnostics"])
def test_a_digest_of_more_steps_or_words_than_anybodys_is_refused(part: str) -> None:
    with pytest.raises(DigestTooLargeError) as refused:
        digest.parse(json.dumps({"steps": [], part: [{}] * 20_001}))
    assert str(refused.value) == f"{LARGER}{part}: got 20,001\n  expected: 20,000 at most"
    assert digest.too_many({"steps": [{}] * 20_000, "diagnostics": 7}) == ""


@pytest.mark.parametrize(
    "step",
    [
        {"op": "create", "newState": {"inputs": {str(at): 1 for at in range(7)}}},
        {"op": "update", "oldState": {"inputs": {}}, "newState": {"inputs": {str(at): 1 for at in range(7)}}},
        {"op": "update", "oldState": {"inputs": {"a": "[{}]"}}, "newState": {"inputs": {"a": "[1,2,3,4,5,6,7]"}}},
        {"op": "update", "detailedDiff": {str(at): {} for at in range(7)}},
    ],
)
def test_no_more_properties_than_a_report_holds_are_reported(step: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(step, dict)
    one, two = ({**step, "urn": f"urn:pulumi:s::p::a:b:C::{name}"} for name in ("one", "two"))
    monkeypatch.setattr(digest, "_MAX_CHANGES", 14)
    assert sum(len(each.properties) for each in digest.parse(json.dumps({"steps": [one, two]})).resources) == 14
    monkeypatch.setattr(digest, "_MAX_CHANGES", 13)
    with pytest.raises(DigestTooLargeError, match=f"{LARGER}more properties differ than a report holds"):
        digest.parse(json.dumps({"steps": [one, two]}))


def test_a_line_of_parents_without_an_end_is_followed_only_so_far() -> None:
    steps = [{"op": "same", "urn": f"u{at}", "newState": {"parent": f"u{at + 1}"}} for at in range(1_000)]
    found = {each.urn: each.component for each in digest.parse(json.dumps({"steps": steps})).resources}
    assert (found["u0"], found["u990"]) == ("u127", "u1000")


def test_a_log_that_says_more_of_policies_than_any_pack_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "events"
    log.write_text('{"policyEvent": {}}\n' * 5)
    monkeypatch.setattr(events, "_MAX_VIOLATIONS", 5)
    assert len(events.violations(log)[0]) == 5
    monkeypatch.setattr(events, "_MAX_VIOLATIONS", 4)
    with pytest.raises(TooMuchError, match="it has more than 4 policy violations"):
        events.violations(log)
    monkeypatch.setattr(events, "_MAX_EVENTS_MIB", 50 / 1024**2)
    with pytest.raises(TooMuchError, match="its events have more than"):
        events.violations(log)
