"""Fixtures: one real control plane for all tests that need no pools, and a table of what runs on pools."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs

from tests.control_plane.api import Api, until
from tests.control_plane.cluster_state import Both
from tests.control_plane.objects import declared
from tests.control_plane.processes import ControlPlane
from tests.sandbox.providers.kubernetes.conftest import Cluster, cluster  # noqa: F401


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    try:
        found = Api(plane.start())
        until(lambda: found.get("v1", "ServiceAccount", "default", "default"), "the controllers run")
        yield found
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def namespace(api: Api) -> str:
    """Return a GpuNamespace, whose pods must satisfy the security level `restricted`."""
    for _, given in declared(lambda: GpuNamespace("gpu-ci", GpuNamespaceArgs(gpus=16))):
        api.apply(given)
    api.ensure_account("gpu-ci")
    return "gpu-ci"


@pytest.fixture
def both(api: Api, cluster: Cluster, namespace: str) -> Iterator[Both]:  # noqa: F811
    found = Both(api, cluster)
    yield found
    found.clear()


PROVED: list[tuple[str, str, str, str]] = []


@pytest.fixture
def proved(request: pytest.FixtureRequest) -> Callable[[str, str, str], None]:
    """Return the function that adds a row to the table: the object, its outcome, and the programs that decided it."""
    cloud = request.node.callspec.id.partition("-")[0].upper()
    return lambda *row: PROVED.append((cloud, *row))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if PROVED:
        terminalreporter.section("proved on a real Kubernetes")
    for cloud, given, outcome, judges in sorted(PROVED):
        terminalreporter.write_line(f"{cloud}  {given:36}  {outcome}  ({judges})")
