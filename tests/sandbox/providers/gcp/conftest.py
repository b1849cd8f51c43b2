"""A gcp provider with a world of its own, driven as the protocol drives it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pulumi_sandbox.providers import rsa_key
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute import instances_api, vm_store
from pulumi_sandbox.providers.gcp.provider import Gcp
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.sdk.shapes import Shapes

from tests.sandbox.providers.clouds import Account

SHAPES = Shapes("gcp")
PROJECT, REGION = "ci-project", "us-central1"

# A template that every rule accepts; tests change one thing in it.
TEMPLATE: dict[str, Any] = {
    "machineType": "g2-standard-8",
    "disks": [{"sourceImage": "projects/images/global/images/one", "diskType": "pd-balanced", "diskSizeGb": 100}],
    "networkInterfaces": [{"network": "default"}],
    "scheduling": {"onHostMaintenance": "TERMINATE"},
}
GROUP: dict[str, Any] = {
    "baseInstanceName": "runner",
    "targetSize": 0,
    "distributionPolicyTargetShape": "ANY",
    "distributionPolicyZones": ["us-central1-a", "us-central1-b"],
    "updatePolicy": {"type": "OPPORTUNISTIC", "minimalAction": "REPLACE", "instanceRedistributionType": "NONE"},
}


@dataclass
class Google(Account):
    """The provider; `problems` is Check alone, `make` is Check and Create."""

    CLOUD: ClassVar = Gcp
    SHAPES: ClassVar = SHAPES

    config: dict[str, Any] = field(default_factory=lambda: {"project": PROJECT, "region": REGION})
    settings: str = "guest: {}\n"

    def template(self, **changes: Any) -> Resource:
        return self.make(types.REGION_TEMPLATE, "template", {**TEMPLATE, **changes})

    def group(self, template: str, **changes: Any) -> Resource:
        return self.make(
            types.REGION_GROUP, "group", {**GROUP, "versions": [{"instanceTemplate": template}], **changes}
        )


@pytest.fixture(autouse=True)
def _prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the delays of a real cloud, but for the tests of these delays."""
    monkeypatch.setattr(vm_store, "STOPPING_SEC", 0.05)
    monkeypatch.setattr(instances_api, "ACCOUNT_SEC", 0.0)


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    # Where machines have their disks: one that is killed leaves it behind.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = Google(tmp_path)
    yield made
    made.cloud.stop()
    made.world.close()


@pytest.fixture
def api(google: Google) -> Any:
    """The same provider with its Compute Engine API served: tests.sandbox.providers.gcp.api.Api."""
    from tests.sandbox.providers.gcp.api import Api

    google.cloud.configure(google.config)
    return Api(google)


@pytest.fixture(scope="session")
def keys() -> Callable[[int], str]:
    """Private keys by number: making one takes a tenth of a second."""
    generated = rsa_key._generated
    return functools.cache(lambda _: generated())


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: Callable[[int], str]) -> Iterator[Any]:
    """A client with a machine's account for the services other than Compute Engine: machine_client.Client."""
    from tests.sandbox.providers.gcp.machine_client import SETTINGS, Client

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    number = itertools.count()
    monkeypatch.setattr(rsa_key, "_generated", lambda: keys(next(number)))
    google = Google(tmp_path, settings=SETTINGS)
    google.cloud.configure(google.config)
    google.make("gcp:serviceaccount/account:Account", "one", {"accountId": "runner"})
    made = Client(google)
    yield made
    made.services.close()
    google.cloud.stop()
    google.world.close()
