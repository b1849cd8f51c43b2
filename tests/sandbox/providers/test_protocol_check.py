"""The provider as the engine calls it: Check, and the outputs of a preview."""

from __future__ import annotations

import pytest
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.providers.resource import Problem, Resource
from pulumi_sandbox.providers.secret_digests import mask_secrets
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.providers.wire import request_values

from tests.sandbox.providers.fake_cloud import BOX, SHELF, Aborted, Bench, made, plain, struct, urn


def test_check_coerces_names_and_notes_what_it_filled_in(bench: Bench) -> None:
    answer = bench.check(struct(size="3", tags={"a": 1}))
    inputs = plain(answer.inputs)
    assert list(answer.failures) == []
    assert inputs == {"size": 3, "tags": {"a": "1"}, "name": inputs["name"], "__defaults": ["name"]}
    assert inputs["name"].startswith("mine-")
    assert len(inputs["name"]) == len("mine-") + 7


def test_the_name_follows_the_engines_seed_and_is_kept_once_chosen(bench: Bench) -> None:
    first = plain(bench.check(struct(size=1), seed=b"one").inputs)
    assert plain(bench.check(struct(size=1), seed=b"one").inputs) == first
    assert plain(bench.check(struct(size=1), seed=b"two").inputs)["name"] != first["name"]
    olds = struct(**first)
    assert plain(bench.check(struct(size=2), olds, seed=b"two").inputs)["name"] == first["name"]
    assert plain(bench.check(struct(size=2, name="own"), olds).inputs)["name"] == "own"
    own = struct(size=2, name="own", __defaults=[])
    assert plain(bench.check(struct(size=2), own).inputs)["name"].startswith("mine-")


def test_a_secret_value_is_not_printed_with_what_is_wrong_with_it(bench: Bench) -> None:
    [failure] = bench.check(struct({("size",)}, size=10)).failures
    assert (failure.property, failure.reason) == ("", "size: must be at most 9\n  hint: two boxes hold more")


def test_the_message_of_a_rule_has_no_secret(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def quoting(res: Resource) -> list[Problem]:
        quoted = [str(res.inputs["size"]), res.inputs["label"].rpartition("/")[2], res.inputs["tags"]["a"]]
        return [Problem("label", f"not any of these\n  got: {quoted}", "did you mean hush-house?")]

    monkeypatch.setattr(bench.cloud, "rules", quoting)
    news = struct({("size",), ("label",), ("tags",)}, size=7431, label="roles/hush-hose", tags={"a": "it's"})
    [failure] = bench.check(news).failures
    assert failure.reason == "label: not any of these\n  got: ['[secret]', '[secret]', \"[secret]\"]"


def test_the_message_of_a_refusal_has_no_secret(bench: Bench) -> None:
    with pytest.raises(Aborted) as refused:
        bench.create(struct({("box",)}, box="boxes/hush"), SHELF)
    assert refused.value.text.startswith("Error 404: the box [secret] was not found")
    question = pb.InvokeRequest(tok="gcp:toys/none:hush", args=struct({("note",)}, note="none:hush"))
    with pytest.raises(Aborted) as unknown:
        bench.call("Invoke", question)
    assert unknown.value.text.startswith("gcp:toys/[secret]: no answer is known")


def test_a_word_that_stands_in_plain_elsewhere_is_not_hidden_in_what_a_vendor_says(bench: Bench) -> None:
    given = struct({("box",), ("tags",)}, box="boxes/hush", tags={"team": "staging"}, label="staging")
    with pytest.raises(Aborted) as refused:
        bench.create(given, SHELF)
    assert refused.value.text.startswith("Error 404: the box [secret] was not found")
    assert (
        mask_secrets("staging-4, boxes/hush", request_values(pb.CreateRequest(properties=given)))
        == "staging-4, [secret]"
    )


def test_a_word_of_a_message_is_not_hidden_because_a_secret_equals_it() -> None:
    given = struct({("tags",), ("label",)}, tags={"provisioned": "true"}, label="hush")
    text = "deletion_protection is set to true, as hush says"
    masked = mask_secrets(text, request_values(pb.CreateRequest(properties=given)))
    assert masked == "deletion_protection is set to true, as [secret] says"


def test_a_previewed_create_knows_its_inputs_and_nothing_else(bench: Bench) -> None:
    answer = bench.create(struct(size=1, name="n", color=UNKNOWN, __defaults=[]), preview=True)
    assert answer.id == ""
    assert plain(answer.properties) == {
        "size": 1, "name": "n", "color": UNKNOWN, "label": UNKNOWN, "password": UNKNOWN, "link": UNKNOWN,
        "token": UNKNOWN, "tags": UNKNOWN,
    }  # fmt: skip
    assert bench.world.find() == []


def test_a_previewed_update_keeps_what_it_does_not_change(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=1, label="x")
    news = struct(**{**plain(inputs), "size": UNKNOWN, "label": None})
    request = pb.UpdateRequest(
        urn=urn(BOX, "mine"), id=identity, olds=outputs, news=news, old_inputs=inputs, preview=True
    )
    answer = plain(bench.call("Update", request).properties)
    assert answer["size"] is UNKNOWN
    assert answer["link"] == plain(outputs)["link"]
    assert bench.world.find()[0].outputs["size"] == 1


def test_what_a_cloud_plans_is_known_in_a_preview(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.cloud, "preview_outputs", lambda res: {"link": f"planned for {res.inputs['name']}"})
    assert plain(bench.create(struct(size=1, name="n"), preview=True).properties)["link"] == "planned for n"
