"""The offline kubernetes provider: names, namespaces, what the API server adds, and which change makes a new object."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.provider import CLUSTER_WIDE, REPLACES, Kubernetes
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.clouds import Bench

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
NAMESPACE = "kubernetes:core/v1:Namespace"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
JOB = "kubernetes:batch/v1:Job"
SERVICE = "kubernetes:core/v1:Service"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(Kubernetes(), tmp_path)


def metadata(bench: Bench, token: str, given: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = bench.checked(token, "app", {"metadata": given} if given else {}, **more).inputs["metadata"]
    return found


def test_a_chosen_name_is_kept_and_a_given_one_left_alone(bench: Bench) -> None:
    first = metadata(bench, CONFIG_MAP)
    assert metadata(bench, CONFIG_MAP, old_inputs={"metadata": first}) == first
    assert metadata(bench, CONFIG_MAP, {"name": "mine"}) == {"name": "mine", "namespace": "default"}
    assert metadata(bench, CONFIG_MAP, {"name": UNKNOWN})["name"] is UNKNOWN
    assert metadata(bench, CONFIG_MAP, {"generateName": "x-"}) == {"generateName": "x-", "namespace": "default"}
    # A name that the program gave is not adopted when the program stops giving it.
    assert metadata(bench, CONFIG_MAP, old_inputs={"metadata": {"name": "mine"}})["name"] != "mine"


def test_the_namespace_of_the_provider_is_filled_in_where_a_kind_lives_in_one(tmp_path: Path) -> None:
    bench = Bench(Kubernetes(), tmp_path, {"namespace": "ci"})
    assert metadata(bench, CONFIG_MAP, {"name": "x"}) == {"name": "x", "namespace": "ci"}
    assert metadata(bench, CONFIG_MAP, {"name": "x", "namespace": "own"})["namespace"] == "own"
    assert metadata(bench, NAMESPACE, {"name": "x"}) == {"name": "x"}
    assert metadata(bench, "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", {"name": "x"}) == {"name": "x"}


def test_a_custom_resource_lives_where_its_definition_says(bench: Bench) -> None:
    token = "kubernetes:example.com/v1:Widget"
    assert metadata(bench, token, {"name": "w"})["namespace"] == "default"
    spec = {"group": "example.com", "scope": "Cluster", "names": {"kind": "Widget"}}
    bench.made("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition", "d", {"spec": spec})
    assert metadata(bench, token, {"name": "w"}) == {"name": "w"}


def test_what_the_api_server_adds_is_in_the_outputs(bench: Bench) -> None:
    made = bench.made(CONFIG_MAP, "app", {"metadata": {"name": "settings"}, "data": {"a": "b"}})
    assert made.id == "default/settings"
    assert made.outputs["data"] == {"a": "b"}
    added = made.outputs["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", added["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", added["creationTimestamp"])
    assert (added["generation"], added["namespace"]) == (1, "default")
    later = bench.cloud.computed(made)["metadata"]
    assert (later["uid"], later["creationTimestamp"], later["generation"]) == (
        added["uid"], added["creationTimestamp"], 2,
    )  # fmt: skip
    assert int(later["resourceVersion"]) >= int(added["resourceVersion"])


def test_a_preview_leaves_open_what_the_api_server_fills_in(bench: Bench) -> None:
    new = bench.checked(CONFIG_MAP, "app", {"metadata": {"name": "x"}})
    counted = {"generation": UNKNOWN, "resourceVersion": UNKNOWN}
    assert bench.cloud.preview_outputs(new) == {
        "metadata": {"name": "x", "namespace": "default", "uid": UNKNOWN, "creationTimestamp": UNKNOWN, **counted}
    }
    made = bench.made(CONFIG_MAP, "app", {"metadata": {"name": "x"}})
    assert bench.cloud.preview_outputs(made) == {"metadata": {**made.outputs["metadata"], **counted}}
    service = bench.checked(SERVICE, "web", {"spec": {"type": "NodePort"}})
    assert bench.cloud.preview_outputs(service)["spec"] == {
        "type": "NodePort",
        "clusterIP": UNKNOWN,
        "clusterIPs": [UNKNOWN],
    }


def test_an_object_in_a_namespace_that_is_not_there_is_refused(bench: Bench) -> None:
    lost = bench.checked(CONFIG_MAP, "app", {"metadata": {"name": "x", "namespace": "ci"}})
    (refusal,) = bench.cloud.refusals(lost)
    assert refusal.splitlines()[0] == 'namespaces "ci" not found'
    assert refusal.splitlines()[1].startswith(
        "  hint: create the namespace in the stack, or, if it exists in the cluster"
    )
    bench.world.insert(Record(NAMESPACE, "ci"))
    assert list(bench.cloud.refusals(lost)) == []
    for space in ("default", "kube-system"):
        known = bench.checked(CONFIG_MAP, "app", {"metadata": {"name": "x", "namespace": space}})
        assert list(bench.cloud.refusals(known)) == []


@pytest.mark.parametrize(
    ("token", "path", "replaces"),
    [
        (CONFIG_MAP, "metadata.name", True),
        (CONFIG_MAP, "metadata.labels.a", False),
        (CONFIG_MAP, 'data["a.conf"]', True),
        ("kubernetes:core/v1:Secret", "stringData.key", True),
        (DEPLOYMENT, "spec.selector.matchLabels.app", True),
        (DEPLOYMENT, "spec.template.spec.containers[0].image", False),
        (JOB, "spec.template.spec.containers[0].image", True),
        (JOB, "spec.activeDeadlineSeconds", False),
        (SERVICE, "spec.clusterIP", True),
        ("kubernetes:example.com/v1:Widget", "spec.size", False),
        ("kubernetes:example.com/v1:Widget", "metadata.name", True),
    ],
)
def test_what_makes_a_new_object_is_what_the_real_provider_lists(
    bench: Bench, token: str, path: str, replaces: bool
) -> None:
    assert bench.cloud.replaces(token, path) is replaces


def test_a_replacement_that_needs_the_same_name_deletes_first(bench: Bench) -> None:
    def keeps(new: dict[str, Any], old: dict[str, Any]) -> bool:
        res = bench.resource(JOB, "app", {"metadata": new}, old_inputs={"metadata": old})
        return bench.cloud.deletes_old_first(res)

    autonamed = {"name": "x", "annotations": {"pulumi.com/autonamed": "true"}}
    assert keeps({"name": "x"}, {"name": "x"})
    assert not keeps({"name": "y"}, {"name": "x"})
    assert not keeps({"name": "x", "namespace": "b"}, {"name": "x", "namespace": "a"})
    assert not keeps(autonamed, autonamed)


def test_programs_read_the_address_of_a_load_balancer_and_the_status_of_a_release(bench: Bench) -> None:
    service = bench.made(SERVICE, "web", {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
    [ingress] = service.outputs["status"]["loadBalancer"]["ingress"]
    assert re.fullmatch(r"203\.0\.113\.\d+", ingress["ip"])
    assert bench.made(SERVICE, "app", {"spec": {"ports": [{"port": 80}]}}).outputs["status"] == {"loadBalancer": {}}

    given = {"chart": "wordpress", "version": "9.6.0", "name": "blog", "namespace": "default"}
    release = bench.made("kubernetes:helm.sh/v3:Release", "blog", given)
    assert release.outputs["status"] == given | {"status": "deployed", "revision": 1}


def test_a_chart_that_only_helm_can_render_has_no_objects_and_a_warning_without_its_values(bench: Bench) -> None:
    messages: list[tuple[str, str]] = []
    bench.cloud.context.log = lambda text, severity: messages.append((severity, text))
    options = {"chart": "gha-runner-scale-set", "values": {"githubConfigSecret": {"github_token": "hush"}}}
    answer = bench.cloud.invoke("kubernetes:helm:template", {"jsonOpts": json.dumps(options)})
    assert answer == ({"result": []}, ())
    [(severity, text)] = messages
    assert severity == "warning"
    assert "gha-runner-scale-set" in text
    assert "kubernetes.helm.v3.Release" in text
    assert "hush" not in text


def test_a_chart_of_sandbox_yaml_has_the_objects_of_its_entry(tmp_path: Path) -> None:
    result = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    entry = {"lookups": {"kubernetes:helm:template": [{"result": {"result": [result]}}]}}
    (tmp_path / "sandbox.yaml").write_text(json.dumps(entry))
    found = Bench(Kubernetes(), tmp_path).cloud.invoke("kubernetes:helm:template", {"jsonOpts": "{}"})
    assert found == ({"result": [result]}, ())


def test_the_tables_name_only_kinds_the_sdk_has(bench: Bench) -> None:
    known = {(token.split(":")[1].split("/")[0], token.rsplit(":", 1)[-1]) for token in bench.cloud.shapes.tokens}
    assert set(REPLACES) <= known
    assert {kind for _, kind in known} >= CLUSTER_WIDE
