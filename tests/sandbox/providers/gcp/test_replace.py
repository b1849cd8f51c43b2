"""Changes that replace a resource, changes that update it, and differences that are no change."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.provider import Gcp
from pulumi_sandbox.providers.values import UNKNOWN, Decoded

from tests.sandbox.providers.gcp.conftest import GROUP, Google

REPLACES = {
    (types.REGION_TEMPLATE, 'metadata["startup-script"]'): True,
    (types.REGION_TEMPLATE, "scheduling.gracefulShutdown.maxDuration.seconds"): True,
    (types.REGION_TEMPLATE, "deletionPolicy"): False,
    (types.TEMPLATE, "tags[0]"): True,
    (types.REGION_GROUP, "versions[0].instanceTemplate"): False,
    (types.REGION_GROUP, "baseInstanceName"): True,
    (types.REGION_GROUP, "targetSizePolicies[0].mode"): True,
    (types.REGION_GROUP, "targetSizePolicies"): True,
    (types.PROJECT_MEMBER, "condition.title"): True,
    (types.WORKER_POOL, "privateServiceConnect.routeAllTraffic"): True,
    (types.WORKER_POOL, "workerConfig.machineType"): False,
    (types.NODE_POOL, "nodeConfig.guestAccelerators[0].count"): True,
    (types.NODE_POOL, "nodeConfig.labels.team"): False,
    (types.CLUSTER, "name"): None,
}


@pytest.mark.parametrize(
    ("where", "expected"), REPLACES.items(), ids=lambda it: "-".join(it) if isinstance(it, tuple) else ""
)
def test_a_change_replaces_or_updates(where: tuple[str, str], expected: bool | None) -> None:
    assert Gcp().replaces(*where) is expected


def test_the_table_names_only_properties_there_are(google: Google) -> None:
    wrong = []
    for token, row in types.TARGETS.items():
        for path in (*row.replaces, *row.in_place):
            known = google.cloud.shapes.shape(token).inputs
            for name in path.split("."):
                if name not in known.properties:
                    wrong.append(f"{token} {path}")
                    break
                inner = known.properties[name].type
                inner = inner.of[0] if inner.kind == "list" else inner
                known = google.cloud.shapes.object(inner.name) if inner.kind == "object" else known
    assert wrong == []


SAME = [
    ("network", "default", "https://www.googleapis.com/compute/v1/projects/p/global/networks/default", True),
    (
        "network",
        "projects/p/global/networks/a",
        "https://compute.googleapis.com/compute/v1/projects/p/global/networks/a",
        True,
    ),
    ("network", "projects/p/global/networks/a", "projects/q/global/networks/a", False),
    ("network", "a", "b", False),
    (
        "versions[0].instanceTemplate",
        "global/instanceTemplates/a?uniqueId=1",
        "projects/p/global/instanceTemplates/a",
        True,
    ),
    ("distributionPolicyZones", ["us-east1-b", "us-east1-c"], ["us-east1-c", "us-east1-b"], True),
    ("distributionPolicyZones", ["us-east1-b"], ["us-east1-c"], False),
    ("description", "a", "https://x/compute/v1/a", False),
    ("networkConfig.peeredNetwork", "projects/1/global/networks/a", "projects/p/global/networks/a", True),
    ("networkConfig.peeredNetwork", "projects/1/global/networks/a", "projects/1/global/networks/b", False),
    ("reservedPeeringRanges", ["a", "b"], ["b", "a"], True),
]


@pytest.mark.parametrize(("path", "old", "new", "expected"), SAME)
def test_a_name_and_its_link_are_the_same(path: str, old: Any, new: Any, expected: bool) -> None:
    assert Gcp().same(types.REGION_GROUP, path, old, new) is expected


def test_another_machine_type_changes_the_template_and_not_the_group(google: Google) -> None:
    template = google.template()
    group = google.group(template.outputs["selfLink"])
    after = google.resource(types.REGION_TEMPLATE, "template", {**template.inputs, "machineType": "g2-standard-12"})
    changes, _ = google.lifecycle.diff(after, Decoded(template.inputs), [])
    assert [str(one.path) for one in changes] == ["('machineType',)"]
    inputs = {
        **group.inputs,
        "versions": [{"instanceTemplate": template.id}],
        "distributionPolicyZones": GROUP["distributionPolicyZones"][::-1],
    }
    changes, _ = google.lifecycle.diff(google.resource(types.REGION_GROUP, "group", inputs), Decoded(group.inputs), [])
    assert changes == []


DOCUMENTED = {
    (types.REGION_GROUP, "name"): True,
    (types.NODE_POOL, "nodeConfig.labels.team"): None,
    (types.SECRET, "secretId"): True,
    (types.WORKER_POOL, "workerConfig.machineType"): None,
    ("gcp:storage/bucket:Bucket", "location"): True,
    ("gcp:storage/bucket:Bucket", "name"): True,
    ("gcp:storage/bucket:Bucket", "versioning.enabled"): None,
    ("gcp:pubsub/topic:Topic", "name"): True,
    ("gcp:pubsub/topic:Topic", "labels.team"): None,
    ("gcp:organizations/project:Project", "name"): None,
    ("gcp:dns/managedZone:ManagedZone", "project"): True,
    ("gcp:toys/toy:Toy", "name"): None,
}


@pytest.mark.parametrize(("token", "path"), DOCUMENTED)
def test_a_resource_keeps_its_place_and_what_it_is_imported_by(google: Google, token: str, path: str) -> None:
    assert google.cloud.replaces_by_documentation(token, path) is DOCUMENTED[token, path]


def differences(google: Google, token: str, old: dict[str, Any], new: dict[str, Any]) -> dict[str, bool]:
    """The paths that differ, and whether each makes a new resource."""
    after = google.resource(token, "one", new, old_inputs=old)
    changes, _ = google.lifecycle.diff(after, Decoded(old), [])
    return {one.text: bool(one.replacing or google.lifecycle.replaces(after, one.text)) for one in changes}


# terraform-provider-google, resource_compute_subnetwork_test.go has the first two.
@pytest.mark.parametrize(
    ("old", "new", "replaces"),
    [
        ("10.0.0.0/8", "10.0.0.0/16", True),
        ("10.0.0.0/16", "10.0.0.0/8", False),
        ("10.0.0.0/16", None, False),
        ("10.0.0.0/16", UNKNOWN, False),
        ("10.0.0.0/16", "fd20::/20", True),
    ],
)
def test_a_range_of_a_subnetwork_grows_in_place(google: Google, old: str, new: Any, replaces: bool) -> None:
    before, after = ({"network": "ci", "ipCidrRange": each} for each in (old, new))
    assert differences(google, types.SUBNETWORK, before, after) == {"ipCidrRange": replaces}


def moves(
    google: Google, token: str, inputs: dict[str, Any], config: dict[str, Any], ignored: tuple[str, ...] = ()
) -> Any:
    """Return the changes of an existing resource after a change of the provider's configuration."""
    made = google.make(token, "one", inputs)
    google.config.update(config)
    after = google.resource(token, "one", made.inputs, old_inputs=made.inputs, outputs=made.outputs, id=made.id)
    changes, _ = google.lifecycle.diff(after, Decoded(made.inputs), ignored)
    return [(one.text, one.old, one.new, one.replacing) for one in changes]


PROJECT_MOVES = [("project", "ci-project", "other-project", True)]


def test_another_project_of_the_provider_makes_what_lies_in_it_anew(google: Google) -> None:
    topic = "gcp:pubsub/topic:Topic"
    assert moves(google, topic, {}, {"project": "other-project"}) == PROJECT_MOVES


def test_another_region_makes_regional_templates_anew_and_leaves_networks(google: Google) -> None:
    from tests.sandbox.providers.gcp.conftest import TEMPLATE

    assert moves(google, types.REGION_TEMPLATE, TEMPLATE, {"region": "us-east1"}) == [
        ("region", "us-central1", "us-east1", True)
    ]
    assert moves(google, types.NETWORK, {"autoCreateSubnetworks": False}, {"region": "us-west1"}) == []
