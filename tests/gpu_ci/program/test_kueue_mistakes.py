"""Mistakes of queues and of pools on a cluster with Kueue, each with the one problem that its user reads."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from gpu_ci.program import stack_warnings

from tests.gpu_ci.program import gke
from tests.gpu_ci.program.stack import ON_CLUSTER, load, refused
from tests.gpu_ci.program.test_clusters import IMAGE, stack

POOL, CLUSTER = "gpu-ci:pools.a10g", "gpu-ci:clusters.ci"
QUEUES = f"{CLUSTER}.kueue.queues"
VISION = f"{QUEUES}.vision"
WITHOUT_COHORT = "has no effect, and Kueue rejects it: the queue is in no cohort"
BY_DEFAULT = "is the name with which Kueue would queue every pod of the namespace, also smoke checks"
NO_COHORT = "set the cohort, or remove it"
MOST = "the {} GPUs that the queue vision can use with all it may borrow"
UNKNOWN, NO_TEXT = f"is not a queue of {CLUSTER}.kueue", "must be text"
MISSING = "is missing: without it, the runners of the pool would use GPUs without a quota"
NEEDS_KUEUE = "needs Kueue on the cluster ci: without it, no quota limits the runners"


def queues(**changes: Any) -> dict[str, Any]:
    """Return Kueue's settings, with these changes of the queue `vision`, which is the pool's."""
    vision = {"gpus": 2, "cohort": "gpu", **changes}
    return {"queues": {"vision": vision, "speech": {"gpus": 1, "cohort": "gpu"}}}


def with_kueue(kueue: Any, **pool: Any) -> dict[str, Any]:
    """Return a stack file with one pool on EKS, whose cluster has these settings of Kueue."""
    cluster = {**ON_CLUSTER["gpu-ci:clusters"]["ci"], "kueue": kueue}
    return stack({"queue": "vision", **pool}, clusters={"ci": cluster})


def job(gpus: int) -> dict[str, Any]:
    """Return a pool whose jobs have this number of GPUs."""
    return {"instanceTypes": ["g5.48xlarge"], "runner": {"image": IMAGE, "gpus": gpus}}


# Kueue's settings and changes of the pool, then path, text and hint of the one problem.
BAD: list[tuple[Any, dict[str, Any], str, str, str]] = [
    (queues(), {"queue": "visoin"}, f"{POOL}.queue", UNKNOWN, "did you mean vision"),
    (queues(), {"queue": "robotics"}, f"{POOL}.queue", UNKNOWN, f"describe its quota under {QUEUES}.robotics"),
    (queues(), {"queue": None}, f"{POOL}.queue", MISSING, "such as queue: vision"),
    (queues(), {"queue": 3}, f"{POOL}.queue", NO_TEXT, "such as queue: vision"),
    (queues(), {"queue": ["vision"]}, f"{POOL}.queue", NO_TEXT, "such as queue: vision"),
    (queues(), {"queue": "Vision"}, f"{POOL}.queue", "has a form that is not accepted", "such as queue: vision"),
    (
        queues(),
        {"queue": "default"},
        f"{POOL}.queue",
        BY_DEFAULT,
        "use the name of a team",
    ),
    (
        None,
        {},
        f"{POOL}.queue",
        NEEDS_KUEUE,
        f"describe the queues under {CLUSTER}.kueue, or remove it",
    ),
    ({}, {}, f"{QUEUES}", "is missing", "such as queues: {vision: {gpus: 4"),
    ({"queues": {}}, {}, QUEUES, "needs at least one", "such as queues: "),
    ({"queues": ["vision"]}, {}, QUEUES, "must be a map", "such as queues: "),
    ("on", {}, f"{CLUSTER}.kueue", "must be a map", "such as kueue: {queues: {vision: "),
    (
        {"queues": {**queues()["queues"], "Vision": {"gpus": 1}}},
        {},
        f"{QUEUES}.Vision",
        "has a form that is not accepted",
        "such as queues: {vision: ",
    ),
    ({**queues(), "replicas": 0}, {}, f"{CLUSTER}.kueue.replicas", "must be at least 1", "such as replicas: 1"),
    (queues(cohort=None, cohrt="gpu", borrowingLimit=1), {}, f"{VISION}.cohrt", "unknown key", "did you mean cohort"),
    (queues(cohort=None, cohrt="gpu", gpus=0), {}, f"{VISION}.cohrt", "unknown key", "did you mean cohort"),
    (queues(cohort=None, gpus=0, lendingLimit=0), {}, f"{VISION}.lendingLimit", WITHOUT_COHORT, NO_COHORT),
    ({"queues": {**queues()["queues"], "default": {"gpus": 1}}}, {}, f"{QUEUES}.default", BY_DEFAULT, "use the name"),
    ({"queues": {"vision": 4}}, {}, VISION, "must be a map", ""),
    ({"queues": {"vision": {}}}, {}, f"{VISION}.gpus", "is missing", "such as gpus: 4"),
    (queues(gpus=-1), {}, f"{VISION}.gpus", "must be at least 0", "such as gpus: 4"),
    (queues(gpus="4"), {}, f"{VISION}.gpus", "must be a whole number", "write it without quotes: gpus: 4"),
    (queues(gpus=1.5), {}, f"{VISION}.gpus", "must be a whole number", "such as gpus: 4"),
    (queues(gpus=20000), {}, f"{VISION}.gpus", "must be at most 10000", "such as gpus: 4"),
    (
        {"queues": {"vision": {"gpus": 0}}},
        {},
        f"{VISION}.gpus",
        "admits no runner: without a cohort, the queue cannot borrow GPUs",
        "set gpus: 1 or more, or a cohort",
    ),
    (queues(cohort=None, borrowingLimit=1), {}, f"{VISION}.borrowingLimit", WITHOUT_COHORT, NO_COHORT),
    (queues(cohort=None, lendingLimit=1), {}, f"{VISION}.lendingLimit", WITHOUT_COHORT, NO_COHORT),
    (queues(borrowingLimit=-1), {}, f"{VISION}.borrowingLimit", "must be at least 0", ""),
    (
        queues(lendingLimit=3),
        {},
        f"{VISION}.lendingLimit",
        "is more than gpus, which is 2",
        "lendingLimit: 2, or less",
    ),
    (queues(cohort="GPU"), {}, f"{VISION}.cohort", "has a form that is not accepted", "such as cohort: gpu"),
    (queues(nominalQuota=2), {}, f"{VISION}.nominalQuota", "unknown key", ""),
    ({**queues(), "namespace": "arc-systems"}, {}, f"{CLUSTER}.kueue.namespace", "", "give one of the two"),
    ({**queues(), "version": "0.18.0"}, {}, f"{CLUSTER}.kueue.version", "unknown key", "remove it"),
    ({**queues(), "teams": {}}, {}, f"{CLUSTER}.kueue.teams", "unknown key", "remove it"),
    ({**queues(), "preemption": {}}, {}, f"{CLUSTER}.kueue.preemption", "unknown key", "remove it"),
    (
        queues(gpus=3, borrowingLimit=0),
        job(4),
        f"{POOL}.runner.gpus",
        f"is more than {MOST.format(3)}, so no runner would start",
        "raise gpus or borrowingLimit of the queue vision",
    ),
    # Idle runners of a job that is too large are no second problem.
    (queues(), {**job(4), "minIdle": 1}, f"{POOL}.runner.gpus", f"is more than {MOST.format(3)}", "raise gpus"),
    (queues(), {**job(2), "minIdle": 2}, f"{POOL}.minIdle", "needs 4 GPUs for idle runners", "raise gpus"),
    ({**queues(), "replicas": 6}, {}, f"{CLUSTER}.kueue.replicas", "must be at most 5", "such as replicas: 5"),
    (
        queues(),
        {"max": 4, "minIdle": 4},
        f"{POOL}.minIdle",
        f"needs 4 GPUs for idle runners, which is more than {MOST.format(3)}",
        "raise gpus or borrowingLimit of the queue vision",
    ),
]


@pytest.mark.parametrize(("kueue", "pool", "path", "text", "hint"), BAD)
def test_each_mistake_is_one_problem_with_a_hint(kueue: Any, pool: Any, path: str, text: str, hint: str) -> None:
    [problem] = refused(with_kueue(kueue, **pool)).problems
    assert problem.path == path
    assert text in problem.text
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(("key", "value"), [("kueu", queues()), ("queues", queues()["queues"])])
def test_a_misspelt_kueue_is_one_problem_although_a_pool_names_its_queue(key: str, value: Any) -> None:
    cluster = {**ON_CLUSTER["gpu-ci:clusters"]["ci"], key: value}
    [problem] = refused(stack({"queue": "vision"}, clusters={"ci": cluster})).problems
    assert (problem.path, problem.hint) == (f"{CLUSTER}.{key}", "did you mean kueue")


def test_all_mistakes_of_a_file_are_reported_at_once() -> None:
    values = with_kueue({"queues": {"vision": {"gpus": 0}, "speech": {"gpus": 1, "lendingLimit": 1}}}, queue="visoin")
    assert [problem.path for problem in refused(values).problems] == [
        f"{VISION}.gpus",
        f"{QUEUES}.speech.lendingLimit",
        f"{POOL}.queue",
    ]


def test_an_unknown_queue_and_a_job_that_is_too_large_are_reported_at_once() -> None:
    values = with_kueue(queues(), queue="visoin")
    values["gpu-ci:pools"]["b10g"] = {**values["gpu-ci:pools"]["a10g"], **job(4), "queue": "vision"}
    assert [problem.path for problem in refused(values).problems] == [f"{POOL}.queue", "gpu-ci:pools.b10g.runner.gpus"]


def test_a_queue_that_can_use_no_gpu_has_no_number_to_expect() -> None:
    [problem] = refused(with_kueue({"queues": {"vision": {"gpus": 0, "cohort": "gpu"}}})).problems
    assert (problem.path, problem.expected) == (f"{POOL}.runner.gpus", "")


def test_idle_runners_of_pools_that_share_a_queue_are_counted_together() -> None:
    values = with_kueue(queues(borrowingLimit=0), minIdle=1)
    pool = values["gpu-ci:pools"]["a10g"]
    # The third pool needs a GPU too, but the second one is the first that does not fit.
    values["gpu-ci:pools"] |= {"b10g": {**pool, "minIdle": 2}, "c10g": pool}
    [problem] = refused(values).problems
    others = ", and other pools use 1 of them for idle runners"
    assert (problem.path, problem.text, problem.expected) == (
        "gpu-ci:pools.b10g.minIdle",
        f"needs 2 GPUs for idle runners, which is more than {MOST.format(2)}{others}",
        "1 or less",
    )


def test_a_job_may_need_gpus_that_the_queue_borrows() -> None:
    values = with_kueue({"queues": {"vision": {"gpus": 0, "cohort": "gpu"}, "spare": {"gpus": 4, "cohort": "gpu"}}})
    assert load(values | {"gpu-ci:pools": {"a10g": {**values["gpu-ci:pools"]["a10g"], **job(4)}}}).pools


def test_a_pool_on_gke_has_the_same_rules() -> None:
    kueue = queues()
    [problem] = refused(gke.stack({}, {"kueue": kueue})).problems
    assert (problem.path, problem.text) == ("gpu-ci:pools.l4.queue", MISSING)
    [problem] = refused(gke.stack({"queue": "vision"})).problems
    assert problem.path == "gpu-ci:pools.l4.queue"
    assert [pool.name for pool in load(gke.stack({"queue": "vision"}, {"kueue": kueue})).pools] == ["l4"]


def test_a_namespace_that_kueue_has_only_with_kueue_is_free_without() -> None:
    taken = {**ON_CLUSTER["gpu-ci:clusters"]["ci"], "namespace": "kueue-system"}
    assert load(stack(clusters={"ci": taken})).pools
    [problem] = refused(stack({"queue": "vision"}, clusters={"ci": {**taken, "kueue": queues()}})).problems
    assert (problem.path, problem.text) == (f"{CLUSTER}.namespace", "is already the namespace of the Kueue controller")


@pytest.mark.parametrize(
    ("kueue", "managed", "expected"),
    [
        (queues(), True, [f"{QUEUES}.speech.gpus: no pool of this stack uses the queue, and the quota is 1"]),
        (queues(), False, []),
        (
            {"queues": {"vision": {"gpus": 9}}},
            True,
            [f"{VISION}.gpus: the pools of the queue have at most 2 GPUs, and the quota is 9"],
        ),
        ({"queues": {"vision": {"gpus": 2}}}, True, []),
    ],
)
def test_a_quota_that_the_stacks_pools_cannot_use_is_a_warning(kueue: Any, managed: bool, expected: list[str]) -> None:
    values = with_kueue(kueue)
    values["gpu-ci:clusters"]["ci"]["managed"] = managed
    found = stack_warnings.warnings(load(values), date(2026, 11, 26))
    quotas = [each for each in found if ".kueue." in each]
    hint = "; hint: lower it, unless pools of other stacks use the queue"
    assert quotas == [f"{each}{hint}" for each in expected]
