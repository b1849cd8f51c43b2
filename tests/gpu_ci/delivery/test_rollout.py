"""Rollouts on a fake endpoint: the steps, each way to end, and the mistakes of Google's sample for Cloud Deploy."""

from __future__ import annotations

from collections.abc import Callable
from http.client import BadStatusLine, IncompleteRead
from typing import Any

import gpu_catalog
import pytest
from gpu_ci.delivery.rollout import decide
from gpu_ci.delivery.rollout.decide import RefusedError
from gpu_ci.delivery.rollout.loop import RejectedError
from gpu_ci.delivery.targets.vertex import bucket_bounds, slow_requests, state_of, usd_per_hour
from pulumi_sandbox.providers.gcp.vertex.service import VertexError

from . import google_requests
from .fake_vertex import ENDPOINT, FakeVertex
from .rollouts import BAD, GOOD, QUICK, Rollout

STABLE = {"5001": 100}


def kinds(rollout: Rollout) -> list[str]:
    return [kind for kind, _ in rollout.fake.changes]


def canary(rollout: Rollout) -> str:
    return rollout.fake.labels["gpu-ci-rollout"]


def run(version: str = GOOD, fake: FakeVertex | None = None, **changed: Any) -> tuple[Rollout, decide.End]:
    rollout = Rollout(fake, **changed)
    rollout.start(version)
    return rollout, rollout.watch()


def test_good_model_gets_all_traffic_in_steps() -> None:
    rollout, end = run()
    key = canary(rollout)
    assert (end.status, end.reason) == ("done", "")
    assert rollout.splits() == [STABLE, {key: 10, "5001": 90}, {key: 50, "5001": 50}, {key: 100}]
    # The stable model keeps its machines, so that a rollback is still one write.
    assert "5001" in rollout.fake.models
    assert rollout.fake.labels["team"] == "vision"


def test_bad_model_is_rolled_back_in_one_write_and_undeployed() -> None:
    rollout, end = run(BAD)
    assert (end.status, end.reason) == ("rolled-back", "errors")
    assert rollout.splits() == [STABLE, {canary(rollout): 10, "5001": 90}, STABLE]
    assert kinds(rollout) == ["patch", "deploy", "patch", "patch", "undeploy"]
    assert list(rollout.fake.models) == ["5001"]


def test_slow_model_is_rolled_back() -> None:
    fake = FakeVertex()
    fake.slow[GOOD] = 0.5
    assert run(GOOD, fake, latency={"limitMs": 200})[1].reason == "slow"


@pytest.mark.parametrize("reason", ["errors", "slow"])
def test_late_counts_of_the_last_step_roll_a_model_with_all_traffic_back(reason: str) -> None:
    rollout = Rollout(latency={"limitMs": 200})
    rollout.start()
    while rollout.fake.split != {canary(rollout): 100}:
        rollout.watch(2)
        assert "5001" in rollout.fake.models, "the model to return to"
    {"errors": rollout.fake.rates, "slow": rollout.fake.slow}[reason][GOOD] = 0.3  # below the ceiling
    assert rollout.watch()[:2] == ("rolled-back", reason)


def test_slow_model_is_not_judged_without_a_limit() -> None:
    fake = FakeVertex()
    fake.slow[GOOD] = 0.5
    assert run(GOOD, fake)[1].status == "done"


def test_both_models_equally_bad_are_no_rollback() -> None:
    fake = FakeVertex()
    fake.rates = {"3": 0.2, GOOD: 0.2}
    assert run(GOOD, fake)[1].status == "done"


@pytest.mark.parametrize(("strategy", "splits"), [("blue-green", [STABLE, "all"]), ("immediate", [STABLE, "all"])])
def test_all_traffic_at_once(strategy: str, splits: list[Any]) -> None:
    rollout, end = run(strategy=strategy)
    assert end.status == "done"
    assert rollout.splits() == [{canary(rollout): 100} if each == "all" else each for each in splits]


def test_blue_green_returns_to_the_stable_model_above_the_ceiling() -> None:
    fake = FakeVertex()
    fake.rates[BAD] = 0.9
    rollout, end = run(BAD, fake, strategy="blue-green")
    assert (end.status, end.reason) == ("rolled-back", "ceiling")
    assert rollout.fake.split == STABLE


def test_first_model_of_an_endpoint() -> None:
    rollout, end = run(fake=FakeVertex(stable=False), machine={"type": "g2-standard-8", "accelerator": "NVIDIA_L4"})
    assert end.status == "done"
    assert rollout.splits() == [{}, {canary(rollout): 100}]
    assert [each["labels"]["gpu-ci-status"] for each in rollout.patches()] == ["open", "done"]


def test_first_model_without_machines_is_refused() -> None:
    with pytest.raises(RefusedError, match="machines of the canary are unknown"):
        Rollout(FakeVertex(stable=False)).start()


def test_no_traffic_pauses_after_the_longest_hold() -> None:
    fake = FakeVertex()
    fake.per_minute = 0
    rollout, end = run(fake=fake)
    assert (end.status, end.reason) == ("paused", "max-hold")
    assert rollout.fake.split == {canary(rollout): 10, "5001": 90}


def test_no_traffic_can_roll_back() -> None:
    fake = FakeVertex()
    fake.per_minute = 0
    assert run(fake=fake, onMaxHold="rollback")[1][:2] == ("rolled-back", "max-hold")


def test_no_answer_of_monitoring_holds() -> None:
    fake = FakeVertex()
    fake.fault = lambda number, method, path: "outage" if "timeSeries" in path else None
    rollout, end = run(fake=fake)
    assert (end.status, end.reason) == ("paused", "max-hold")
    assert any("counts of requests cannot be read" in each.text for each in rollout.events)


def test_answer_that_breaks_off_is_read_again() -> None:
    broken: list[Exception] = [IncompleteRead(b"{"), BadStatusLine("garbage")]

    def fault(number: int, method: str, path: str) -> None:
        if number % 5 == 0 and broken:
            raise broken.pop()

    fake = FakeVertex()
    fake.fault = fault
    assert run(fake=fake)[1].status == "done"
    assert broken == []


def test_outages_end_the_command_only_if_they_are_long() -> None:
    rollout = Rollout(strategy="immediate", deployMinutes=120)
    rollout.fake.deploy_sec = 3000
    rollout.start()
    rollout.fake.fault = lambda number, method, path: "outage"
    assert rollout.watch(5)[:2] == ("open", "time-over")
    assert rollout.watch()[:2] == ("error", "unavailable")
    rollout.fake.fault = lambda number, method, path: "outage" if number % 3 == 0 else None
    assert rollout.watch().status == "done"


def page(found: Any, query: Any) -> Any:
    """Return one series of an answer."""
    at, series = int(query.get("pageToken", ["0"])[0]), found["timeSeries"]
    return {"timeSeries": series[at : at + 1]} | ({"nextPageToken": str(at + 1)} if at + 1 < len(series) else {})


@pytest.mark.parametrize(
    ("version", "method", "change", "reason"),
    [
        (GOOD, "series", lambda found, *_: found | {"unreachable": ["europe-west4"]}, "max-hold"),
        (GOOD, "series", lambda found, *_: found | {"executionErrors": [{}]}, "max-hold"),
        (GOOD, "values", lambda found, key, *_: [] if key == "5001" else found, "max-hold"),  # the stable model
        (BAD, "values", lambda found, *_: [(code.replace("503", "499"), each) for code, each in found], ""),
        (BAD, "series", page, "errors"),
    ],
    ids=["unreachable", "incomplete", "no stable model", "no errors", "pages"],
)
def test_other_answers_of_monitoring(
    monkeypatch: pytest.MonkeyPatch, version: str, method: str, change: Callable[..., Any], reason: str
) -> None:
    fake = FakeVertex()
    answer = getattr(fake, method)
    monkeypatch.setattr(fake, method, lambda *arguments: change(answer(*arguments), *arguments))
    assert run(version, fake)[1].reason == reason


def test_latency_without_data_holds() -> None:
    fake = FakeVertex()
    asked: list[str] = []

    def fault(number: int, method: str, path: str) -> str | None:
        if "timeSeries" not in path:
            return None
        asked.append(path)
        return "late-metrics" if len(asked) % 2 == 0 else None  # the second request is that for latencies

    fake.fault = fault
    assert run(fake=fake, latency={"limitMs": 200})[1].reason == "max-hold"


def test_paused_rollout_stays_until_resumed() -> None:
    rollout = Rollout()
    rollout.start()
    rollout.watch(15)
    rollout.command(decide.pause)
    assert rollout.watch().status == "paused"
    assert rollout.fake.split == {canary(rollout): 10, "5001": 90}
    assert rollout.command(decide.pause) is None
    rollout.fake.sleep(600)
    rollout.command(decide.resume, int(rollout.fake.now))
    assert rollout.watch(4).status == "open"
    assert rollout.fake.split == {canary(rollout): 10, "5001": 90}, "the step begins again"
    assert rollout.watch().status == "done"


def test_paused_rollout_deploys_nothing_until_resumed() -> None:
    rollout = Rollout()
    rollout.start()
    rollout.command(decide.pause)
    assert rollout.watch().status == "paused"
    assert "deploy" not in kinds(rollout)
    rollout.command(decide.resume, int(rollout.fake.now))
    assert rollout.watch().status == "done"


def test_paused_rollout_with_a_bad_model_is_rolled_back() -> None:
    rollout = Rollout()
    rollout.start(BAD)
    rollout.watch(13)
    rollout.command(decide.pause)
    rollout.fake.sleep(900)
    assert rollout.watch()[:2] == ("rolled-back", "errors")


def test_end_of_the_time_keeps_the_rollout_open() -> None:
    rollout = Rollout()
    rollout.start()
    assert rollout.watch(5)[:2] == ("open", "time-over")
    assert rollout.watch().status == "done"


def test_second_rollout_is_refused_while_one_is_open() -> None:
    rollout = Rollout()
    rollout.start()
    with pytest.raises(RefusedError, match="a rollout is open") as found:
        rollout.start(BAD)
    assert f"scan@4 ({canary(rollout)})" in found.value.got
    assert rollout.start(GOOD)[0] == "open"
    assert len(rollout.patches()) == 1


def test_command_writes_with_the_etag_of_the_state_from_which_it_decided() -> None:
    rollout = Rollout()
    rollout.start()
    assert [method for method, *_ in rollout.fake.requests] == ["GET", "PATCH"]


def test_start_of_the_stable_version_does_nothing() -> None:
    rollout = Rollout()
    assert isinstance(rollout.start("3"), decide.End)
    assert rollout.fake.changes == []
    other = decide.start(rollout.target.read(), "other", "3", rollout.settings, int(rollout.fake.now))
    assert isinstance(other, decide.Write)


@pytest.mark.parametrize("split", [{"5001": 60, "5002": 40}, {}])
def test_start_with_split_traffic_is_refused(split: dict[str, int]) -> None:
    rollout = Rollout()
    rollout.fake.add("5002", "2", "scan-2")
    rollout.fake.set_split(split)
    with pytest.raises(RefusedError, match="traffic is not on one model"):
        rollout.start()


def test_start_after_a_killed_rollback_is_refused() -> None:
    rollout = Rollout()
    rollout.start()
    rollout.watch(15)
    rollout.command(decide.roll_back, int(rollout.fake.now))
    with pytest.raises(RefusedError, match="still deployed"):
        rollout.start(BAD)
    state = rollout.target.read()._replace(split={canary(rollout): 100})  # a person chose that model
    assert isinstance(decide.start(state, "scan", BAD, rollout.settings, int(rollout.fake.now)), decide.Write)
    assert rollout.watch().status == "rolled-back"
    rollout.start(BAD)


def test_rollback_after_the_end_returns_to_the_earlier_model() -> None:
    rollout, _ = run()
    rollout.command(decide.roll_back, int(rollout.fake.now))
    assert rollout.fake.split == STABLE
    assert rollout.watch()[:2] == ("rolled-back", "requested")
    assert list(rollout.fake.models) == ["5001"]
    assert rollout.command(decide.roll_back, int(rollout.fake.now)) is None


def test_rollback_to_a_chosen_model() -> None:
    rollout = Rollout()
    rollout.fake.add("5000", "2", "scan-2")
    rollout.start()
    rollout.watch(15)
    rollout.command(decide.roll_back, int(rollout.fake.now), "5000")
    assert rollout.fake.split == {"5000": 100}
    assert rollout.watch().status == "rolled-back"
    assert set(rollout.fake.models) == {"5000", "5001"}
    with pytest.raises(RefusedError, match="no model to return to"):
        rollout.command(decide.roll_back, int(rollout.fake.now), "4711")


def test_changed_split_pauses_and_stays() -> None:
    rollout = Rollout()
    rollout.start()
    rollout.watch(15)
    changed = {canary(rollout): 40, "5001": 60}
    rollout.fake.set_split(changed)
    assert rollout.watch()[:2] == ("paused", "split-changed")
    assert rollout.fake.split == changed
    rollout.command(decide.resume, int(rollout.fake.now))
    assert rollout.fake.split == {canary(rollout): 10, "5001": 90}


def test_removed_stable_model_ends_with_a_way_out() -> None:
    rollout = Rollout()
    rollout.start()
    rollout.watch(15)
    rollout.fake.set_split({canary(rollout): 100})
    rollout.fake.remove("5001")
    end = rollout.watch()
    assert (end.status, end.reason) == ("error", "stable-missing")
    assert f"rollback {ENDPOINT} --to" in end.text
    rollout.command(decide.roll_back, int(rollout.fake.now), canary(rollout))
    assert rollout.watch().status == "done"


def test_removed_canary_is_a_rollback() -> None:
    rollout = Rollout()
    rollout.start()
    rollout.watch(15)
    key = canary(rollout)
    rollout.fake.split = {}
    rollout.fake.remove(key)
    rollout.fake.split = {key: 10, "5001": 90}
    assert rollout.watch()[:2] == ("rolled-back", "canary-missing")


def test_failed_deployment_is_a_rollback() -> None:
    fake = FakeVertex()
    fake.fault = lambda number, method, path: "failed-operation" if path.endswith("deployModel") else None
    rollout, end = run(fake=fake)
    assert (end.status, end.reason) == ("rolled-back", "deploy-failed")
    assert any("the operation failed" in each.text for each in rollout.events)


def test_refusal_that_may_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise VertexError(400, "FAILED_PRECONDITION", "the model is being deleted")

    fake = FakeVertex()
    monkeypatch.setattr(fake, "deploy", refuse)
    rollout, end = run(fake=fake)
    assert end[:2] == ("rolled-back", "deploy-timeout")
    assert [each.text for each in rollout.events if "not deployed yet: the model is being deleted" in each.text]


def test_machines_that_never_come_are_a_rollback() -> None:
    fake = FakeVertex()
    fake.deploy_sec = 3 * 3600
    _, end = run(fake=fake)
    assert (end.status, end.reason) == ("rolled-back", "deploy-timeout")
    assert list(fake.models) == ["5001"]


@pytest.mark.parametrize(("replicas", "text"), [(1, "0 of 1 replicas"), (2, "1 of 2 replicas")])
def test_canary_gets_no_traffic_before_its_replicas_run(replicas: int, text: str) -> None:
    fake = FakeVertex()
    fake.replica_sec = 900 if replicas == 1 else 90
    rollout = Rollout(fake, machine={"type": "g2-standard-8", "minReplicas": replicas, "maxReplicas": 2})
    rollout.start()
    assert rollout.watch(20).status == "open"
    assert canary(rollout) in fake.models
    assert fake.split == STABLE
    assert rollout.events[-1].text.endswith(text)


@pytest.mark.parametrize("value", ["ten", "101"])
def test_broken_label_names_the_label(value: str) -> None:
    rollout = Rollout()
    rollout.start()
    rollout.fake.labels["gpu-ci-step"] = value
    end = rollout.watch()
    assert (end.status, end.reason) == ("error", "journal")
    assert "labels.gpu-ci-step" in end.text
    assert f"got: '{value}'" in end.text
    rollout.command(decide.roll_back, int(rollout.fake.now), "5001")
    assert rollout.target.read().journal()


def test_wiped_labels_end_with_no_rollout() -> None:
    rollout = Rollout()
    rollout.start()
    rollout.fake.labels = {}
    assert rollout.watch()[:2] == ("none", "no-rollout")


def test_endpoint_without_etag_is_not_written() -> None:
    rollout = Rollout()
    state = rollout.target.read()._replace(etag="")
    with pytest.raises(RejectedError, match="no etag"):
        rollout.target.write(state, {}, {})
    assert rollout.fake.changes == []


@pytest.mark.parametrize("version", ["9", BAD])
@pytest.mark.parametrize("keep", [1, 2, 3])
def test_cleanup_keeps_the_newest_and_never_those_in_use(keep: int, version: str) -> None:
    fake = FakeVertex()
    fake.models.clear()
    for at, version in enumerate("12345"):
        fake.now += 60
        fake.add(f"60{at}", version, f"gpu-ci-60{at}-{version}")
    fake.add("900", "1", "console")
    fake.set_split({"600": 100})  # the oldest has the traffic
    rollout, end = run(version, fake, keep=keep)
    assert end.status == ("rolled-back" if version == BAD else "done")
    newest = ["604", "603", "602"] if version == BAD else [canary(rollout), "604", "603"]
    assert set(fake.models) == {"900", "600", *newest[:keep]}
    state = rollout.target.read()._replace(split={newest[:keep][-1]: 100})
    assert {each.id for each in decide.removable(state, 1)}.isdisjoint({*state.split, "600", "900"})


# The mistakes of Google's sample for Cloud Deploy (GoogleCloudPlatform/cloud-deploy-samples, custom-targets/vertex-ai).


def test_model_is_deployed_once_for_all_steps() -> None:
    rollout, _ = run()
    assert kinds(rollout).count("deploy") == 1


def test_write_of_another_program_is_not_undone() -> None:
    rollout = Rollout()
    written: list[int] = []

    def fault(number: int, method: str, path: str) -> str | None:
        if method != "PATCH":
            return None
        written.append(number)
        return "other-writer" if len(written) % 2 else None

    rollout.fake.fault = fault
    rollout.start()
    assert rollout.watch().status == "done"
    # Another program changed the labels between each read and write. Its last change is still there.
    assert (len(written), len(rollout.patches())) == (10, 5)
    assert rollout.fake.labels["team"] != "vision"
    assert all(each["labels"]["team"] != "vision" for each in rollout.patches())


def test_failed_undeploy_is_reported() -> None:
    fake = FakeVertex()
    fake.fault = lambda number, method, path: "failed-operation" if path.endswith("undeployModel") else None
    rollout, end = run(BAD, fake)
    assert (end.status, end.reason) == ("rolled-back", "undeploy-failed")
    assert "was not undeployed and costs: the operation failed" in end.text
    assert canary(rollout) in fake.models


# The form of the API


def test_each_request_fits_the_discovery_document() -> None:
    rollout, _ = run(BAD, latency={"limitMs": 200}, machine={"type": "g2-standard-8", "accelerator": "NVIDIA_L4"})
    for each in rollout.fake.requests:
        google_requests.check(*each)
    filters = [query["filter"][0] for _, path, query, _ in rollout.fake.requests if "timeSeries" in path]
    place = 'resource.labels.endpoint_id="7001" AND resource.labels.location="europe-west4"'
    assert all(place in each for each in filters)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"deployedModel": {"id": "1", "createTime": "x"}}, "False schema"),
        ({"deployedModel": {"modelName": "x"}}, "Additional properties"),
        ({"trafficSplit": {"0": "10"}}, "is not of type 'integer'"),
    ],
)
def test_wrong_request_is_found(body: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        google_requests.check("POST", f"/v1/{ENDPOINT}:deployModel", {}, body)


def test_settings_of_the_machine_replace_those_of_the_stable_model() -> None:
    account = "new@acme.iam.gserviceaccount.com"
    rollout, _ = run(machine={"type": "g2-standard-12", "maxReplicas": 3, "spot": True}, serviceAccount=account)
    found = rollout.fake.models[canary(rollout)]
    own = {"machineSpec": {"machineType": "g2-standard-12"}, "minReplicaCount": 1, "maxReplicaCount": 3, "spot": True}
    assert (found["dedicatedResources"], found["serviceAccount"]) == (own, account)


def test_required_replicas_are_those_that_take_traffic() -> None:
    machines = {"minReplicaCount": 3, "requiredReplicaCount": 2}
    state = state_of({"name": ENDPOINT, "deployedModels": [{"id": "1", "dedicatedResources": machines}]})
    assert state.deployed["1"].least == 2


def test_price_of_a_deployed_model_is_that_of_its_machines() -> None:
    def price(replicas: int, spec: dict[str, Any], **more: Any) -> float | None:
        machines = {"machineSpec": spec, "minReplicaCount": 2, **more}
        model = {"id": "1", "dedicatedResources": machines, "status": {"availableReplicaCount": replicas}}
        return usd_per_hour(state_of({"name": ENDPOINT, "deployedModels": [model]}).deployed["1"], ENDPOINT)

    l4 = {"machineType": "g2-standard-8", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1}
    t4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2}
    for name, spec, market in (("g2-standard-8", l4, "standard"), ("n1-standard-8+nvidia-tesla-t4x2", t4, "spot")):
        each = gpu_catalog.price(name, "europe-west4", market)
        # A model that is being deployed already holds its fewest machines.
        for replicas, count in ((0, 2), (5, 5)):
            assert each
            assert price(replicas, spec, spot=market == "spot") == round(each.usd_per_hour * count, 4)
    assert (price(1, {"machineType": "e2-standard-4"}), price(1, {})) == (None, None)


def test_state_of_an_empty_endpoint() -> None:
    state = state_of({"name": ENDPOINT, "etag": "a"})
    assert (state.deployed, state.split, state.journal()) == ({}, {}, None)


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({"explicitBuckets": {"bounds": [1, 10]}}, [1, 10]),
        ({"linearBuckets": {"offset": 5, "width": 10, "numFiniteBuckets": 2}}, [5, 15, 25]),
        ({"exponentialBuckets": {"scale": 1, "growthFactor": 2, "numFiniteBuckets": 3}}, [1, 2, 4, 8]),
        ({}, []),
    ],
)
def test_bounds_of_buckets(options: Any, bounds: list[float]) -> None:
    assert bucket_bounds(options) == bounds


@pytest.mark.parametrize(("limit", "slow"), [(1, 7), (5, 3), (10, 3), (11, 0)])
def test_slow_requests_are_those_in_buckets_above_the_limit(limit: float, slow: float) -> None:
    options = {"explicitBuckets": {"bounds": [1, 10]}}
    assert slow_requests({"bucketCounts": ["2", "4", "3"], "bucketOptions": options}, limit) == slow


def test_steps_of_a_changed_file_continue_above_the_current_step() -> None:
    rollout = Rollout()
    rollout.start()
    rollout.watch(15)
    rollout.settings = Rollout(steps=[{"percent": 5}, {"percent": 60, "minutes": 5}]).settings
    rollout.watch()
    assert {60, 100} <= {each.get(canary(rollout)) for each in rollout.splits()}
    assert QUICK["bakeMinutes"] == rollout.settings.rules(100).step_minutes
