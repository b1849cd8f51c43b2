"""An aws provider with a world of its own, driven as the protocol drives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.provider import Aws
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.values import Decoded

from tests.sandbox.providers.clouds import Account

SHAPES = Shapes("aws")
REGION = "us-east-1"
LISTED = "exists: {aws: [cluster/ci, role/eks-node, role/eks-cluster]}\n"
ROLE_ARN = "arn:aws:iam::123456789012:role/eks-node"

# What every rule accepts; tests change one thing in it.
NODE_GROUP: dict[str, Any] = {
    "clusterName": "ci",
    "nodeGroupName": "l4",
    "nodeRoleArn": ROLE_ARN,
    "subnetIds": ["subnet-0a1b2c3d4e5f60001"],
    "amiType": "AL2023_x86_64_NVIDIA",
    "instanceTypes": ["g6.xlarge"],
    "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 4},
}
TEMPLATE: dict[str, Any] = {
    "name": "l4-nodes",
    "instanceType": "g6.xlarge",
    "metadataOptions": {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 2},
    "blockDeviceMappings": [
        {"deviceName": "/dev/xvda", "ebs": {"volumeType": "gp3", "volumeSize": 100, "encrypted": "true"}}
    ],
}


@dataclass
class Amazon(Account):
    """The provider with its messages. `change` calls Check and Update."""

    CLOUD: ClassVar = Aws
    SHAPES: ClassVar = SHAPES

    config: dict[str, Any] = field(default_factory=lambda: {"region": REGION})
    settings: str = ""
    messages: list[str] = field(default_factory=list)

    def resource(self, token: str, name: str, inputs: dict[str, Any], **more: Any) -> Resource:
        log = {"log": lambda text, severity="info": self.messages.append(f"{severity}: {text}")}
        return super().resource(token, name, inputs, **{**log, **more})

    def node_group(self, **changes: Any) -> list[str]:
        return self.problems(types.NODE_GROUP, {**NODE_GROUP, **changes})

    def template(self, **changes: Any) -> list[str]:
        return self.problems(types.LAUNCH_TEMPLATE, {**TEMPLATE, **changes})

    def change(self, made: Resource, **changes: Any) -> Resource:
        res = self.resource(
            made.token, made.name, {**made.inputs, **changes}, old_inputs=made.inputs, outputs=made.outputs, id=made.id
        )
        _, problems = self.lifecycle.check(res)
        assert problems == []
        self.lifecycle.update(res, Decoded(made.outputs))
        return res


@pytest.fixture
def amazon(tmp_path: Path) -> Iterator[Amazon]:
    made = Amazon(tmp_path)
    yield made
    made.world.close()


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Amazon]:
    """One with a cluster and a role that no stack made."""
    made = Amazon(tmp_path, settings=LISTED)
    yield made
    made.world.close()


def refused(amazon: Amazon, token: str, inputs: dict[str, Any]) -> str:
    with pytest.raises(Refused) as answer:
        amazon.make(token, "one", inputs)
    return str(answer.value)


def listing(path: str) -> str:
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{aws: [{path}]}}"
