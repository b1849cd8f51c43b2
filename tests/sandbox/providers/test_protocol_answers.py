"""The provider as the engine calls it: Diff, lookups, configuration and errors."""

from __future__ import annotations

import logging
from importlib.metadata import version

import pytest
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.providers.values import STRIPPED
from pulumi_sandbox.providers.wire import decode

from tests.sandbox.providers.fake_cloud import BOX, SHELF, Bench, refused, struct, urn


def test_diff_says_update_or_replace_from_the_clouds_table(bench: Bench) -> None:
    request = pb.DiffRequest(
        urn=urn(BOX, "mine"),
        old_inputs=struct(size=1, color="red", label="A", name="x"),
        news=struct(size=2, color="blue", label="a", name="x"),
    )
    answer = bench.call("Diff", request)
    kinds = {path: pb.PropertyDiff.Kind.Name(one.kind) for path, one in answer.detailedDiff.items()}
    assert kinds == {"size": "UPDATE", "color": "UPDATE_REPLACE"}
    assert list(answer.replaces) == ["color"]


def test_a_replacement_that_keeps_a_name_of_the_programs_own_deletes_first(bench: Bench) -> None:
    def delete_first(old: str, new: str, defaults: list[str]) -> bool:
        request = pb.DiffRequest(
            urn=urn(BOX, "mine"),
            old_inputs=struct(color="red", name=old, __defaults=defaults),
            news=struct(color="blue", name=new, __defaults=defaults),
        )
        return bool(bench.call("Diff", request).deleteBeforeReplace)

    assert delete_first("n", "n", []) is True
    assert delete_first("n", "m", []) is False
    assert delete_first("n-1", "n-1", ["name"]) is False


def test_a_type_without_a_table_is_reported_once(bench: Bench) -> None:
    request = pb.DiffRequest(urn=urn(SHELF, "s"), old_inputs=struct(box="a"), news=struct(box="b"))
    for _ in range(2):
        assert list(bench.call("Diff", request).replaces) == []
    text = f"{SHELF}: only its shape is checked; a change replaces it only if its SDK says so"
    assert bench.messages == [(text, "info", urn(SHELF, "s"))]


def test_a_lookup_answers_and_hides_what_repeats_a_secret_argument(bench: Bench) -> None:
    request = pb.InvokeRequest(tok="gcp:toys/double:double", args=struct({("note",)}, value=4, note="a secret note"))
    decoded = decode(getattr(bench.call("Invoke", request), "return"))
    assert decoded.values == {"result": 8, "echo": "a secret note"}
    assert decoded.secrets == {("echo",)}


def test_a_secret_of_the_configuration_that_was_taken_out_of_a_state_is_unchanged(bench: Bench) -> None:
    request = pb.DiffRequest(old_inputs=struct(token=STRIPPED, project="a"), news=struct(token="any", project="a"))
    assert bench.call("DiffConfig", request).changes == pb.DiffResponse.DIFF_NONE
    gone = pb.DiffRequest(old_inputs=struct(token=STRIPPED), news=struct())
    assert list(bench.call("DiffConfig", gone).diffs) == ["token"]


def test_a_program_with_another_version_of_the_sdk_gets_a_message_about_the_version_that_checks_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.call("Configure", pb.ConfigureRequest())
    assert bench.messages == []
    monkeypatch.setenv("PULUMI_SANDBOX_SDK_VERSION", "9.37.1")
    bench.call("Configure", pb.ConfigureRequest())
    [(text, severity, _)] = bench.messages
    assert severity == "warning"
    assert text.startswith(
        f"the program uses pulumi_gcp 9.37.1, but the sandbox checks resources with {version('pulumi-gcp')}; "
    )


def test_a_fault_of_ours_is_a_short_note_and_its_traceback_goes_to_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    request = pb.CreateRequest(urn=urn(BOX, "mine"), properties=struct(size=1, name="n", color="boom"))
    with caplog.at_level(logging.ERROR):
        text = refused(bench, "Create", request)
    assert text == (
        "pulumi-sandbox: Create failed because of a bug in the sandbox (ZeroDivisionError)\n"
        "  hint: report the bug with logs/gcp.log in the sandbox's folder"
    )
    assert "Traceback" in caplog.text
    assert "Traceback" not in text
