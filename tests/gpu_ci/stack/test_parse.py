"""gpu_ci.stack.parse: a stack file becomes one value, whose late inputs are open."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.args import OPEN, Args
from gpu_ci.stack.parse import Stack

from tests.gpu_ci.program.stack import L4, ON_CLUSTER, SUBNETWORK, config, site, texts

IMAGE = "ghcr.io/acme/runner@sha256:" + "a1" * 32
A10G: dict[str, Any] = {"kind": "eks-runners", "clusterName": "ci", "instanceTypes": ["g5.2xlarge"], "max": 1}


def parsed(values: dict[str, Any]) -> Stack:
    return Stack("Pulumi.dev.yaml", "dev", texts(values))


def on_cluster(**cluster: Any) -> Stack:
    described = {"gpu-ci:clusters": {"ci": ON_CLUSTER["gpu-ci:clusters"]["ci"] | cluster}}
    return parsed({**ON_CLUSTER, **described, "gpu-ci:pools": {"a": {**A10G, "runner": {"image": IMAGE}}}})


def test_wiring_is_known_where_the_file_has_it_and_open_elsewhere() -> None:
    values = config({"here": L4, "there": {**L4, "zones": ["us-east1-b"]}})
    stack = parsed({**values, **site(networks={"us-east1": {"ipRange": "10.0.0.0/20"}}, labels={"team": "ml"})})
    assert stack.problems == []
    here, there = (spec.args for spec in stack.specs)
    assert (here.project, here.labels, here.subnetwork) == ("example-ci", {"team": "ml"}, SUBNETWORK)
    assert (there.project, there.subnetwork) == ("example-ci", OPEN)


def test_a_pool_on_a_cluster_waits_for_the_facts_of_the_cluster() -> None:
    [pool] = on_cluster().specs
    args: Any = pool.args
    assert (args.region, args.kubernetes_version, args.app.private_key) == ("us-east-1", OPEN, OPEN)
    assert (args.github_config_url, args.runner_group) == ("https://github.com/acme", "gpu-dev")


def test_a_pool_on_an_invalid_cluster_has_no_arguments() -> None:
    stack = on_cluster(region=7)
    assert [(spec.name, spec.args) for spec in stack.specs] == [("a", None)]
    assert (stack.pools, stack.problems_of_pools) == ([], [])
    assert "gpu-ci:clusters.ci.region" in {problem.path for problem in stack.problems}


def test_each_pool_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    parse = Args.parse.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Args], *given: Any) -> Any:
        seen.append(cls.__name__)
        return parse(cls, *given)

    monkeypatch.setattr(Args, "parse", classmethod(counted))
    stack = parsed(config({"a": L4, "b": L4}))
    assert (stack.problems, stack.problems, len(stack.pools), stack.quotas.findings) == ([], [], 2, ())
    assert seen.count("RunnerPoolArgs") == 2


def test_a_pool_that_does_not_work_with_what_the_stack_gives_it_is_a_problem() -> None:
    """Google takes up to 64 labels, and AWS up to 50 tags, of which gpu-ci needs some."""
    values = {"gcp:project": "acme-ci", **ON_CLUSTER, "gpu-ci:pools": {"a": {**A10G, "runner": {"image": IMAGE}}}}
    values["gpu-ci:site"] = {**values["gpu-ci:site"], "labels": {f"l{number}": "a" for number in range(50)}}
    stack = parsed(values)
    assert [(spec.args, stack.problems_of_pools) for spec in stack.specs] == [(None, [])]
    assert {problem.path for problem in stack.problems} == {"gpu-ci:pools.a.tags"}
