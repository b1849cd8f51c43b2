"""A component around a Helm chart from another package: it passes the tests of all components, and is documented."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests import other_package

_HERE = Path(__file__).parent
_run = partial(other_package.run, _HERE)
_PROGRAM = """
import json
from toy_charts.toy_chart import ToyChart
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import build
from tools.docs.components import pages
[component, namespace, release] = deploy(lambda: build(ToyChart)).rows
print(json.dumps([namespace.inputs, release.inputs, pages()["reference/kubernetes-components.md"]]))
"""


@pytest.mark.slow
def test_it_passes_the_contract_tests_of_components() -> None:
    # Its URNs are in no golden file, because these are files of gpu-ci.
    tests = ("tests/gpu_ci/test_contracts.py", "-k", "ToyChart and not urns")
    ran = _run("-m", "pytest", "-v", "-p", "no:cacheprovider", "-n", "0", *tests)
    assert "but_the_check_of_the_gpus[gpu-ci:kubernetes:ToyChart] PASSED" in ran


@pytest.mark.slow
def test_it_creates_its_namespace_and_the_pinned_release_and_has_a_section_in_the_reference() -> None:
    namespace, release, page = json.loads(_run("-c", _PROGRAM))
    assert namespace["metadata"] == {"name": "toy", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    assert release["chart"] == f"oci://ghcr.io/acme/toy@sha256:{'a1' * 32}"
    assert (release["name"], release["namespace"], release["version"]) == ("pool", "toy", "6.9.0")
    assert release["values"]["replicaCount"] == 2
    assert "## ToyChart" in page
