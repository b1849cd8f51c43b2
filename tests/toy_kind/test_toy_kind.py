"""A kind of pool from another package: it is found by its entry point, and needs no change of a file of gpu-ci."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests import other_package

_HERE = Path(__file__).parent
_run = partial(other_package.run, _HERE)
_STACK = {"gcp:project": "acme-ci", "gpu-ci:pools": {"toy": {"kind": "toy-machines", "machineType": "g2-standard-4"}}}
_SCHEMAS = """
import json
from gpu_ci.schema import schema
from gpu_ci.stack.schema import stack_schema
from tools.docs.components import pages
print(json.dumps([stack_schema(), schema(), pages()["reference/pools.md"]]))
"""
_DEPLOYED = """
import json, sys
from tests.gpu_ci.program.test_program import run
print(json.dumps([[row.type, row.name] for row in run(json.loads(sys.argv[1])).rows]))
"""


@pytest.fixture
def stack_file(tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": _STACK}))
    return file


@pytest.mark.slow
def test_it_passes_the_contract_tests_of_components_and_kinds() -> None:
    # Its URNs are in no golden file, because these are files of gpu-ci.
    tests = ("tests/gpu_ci/test_contracts.py", "tests/gpu_ci/test_pool_kinds.py")
    chosen = "(ToyPool or toy-machines) and not urns"
    ran = _run("-m", "pytest", "-v", "-p", "no:cacheprovider", "-n", "0", *tests, "-k", chosen)
    assert "test_it_registers_exactly_the_outputs_it_annotates_and_has_them[gpu-ci:gcp:ToyPool] PASSED" in ran
    assert "test_previews_know_the_resources_that_its_jobs_run_on[toy-machines] PASSED" in ran


def test_commands_check_it_and_count_its_machine(stack_file: Path) -> None:
    [checked] = json.loads(_run("-m", "gpu_ci.cli", "check", "--json", str(stack_file)))
    assert (checked["works"], checked["pools"]) == (True, ["toy"])
    assert "gpu-ci:pools.toy: is a toy" in checked["notes"]
    doctor = json.loads(_run("-m", "gpu_ci.cli", "doctor", "--json", "--only", "toy-machines", str(stack_file)))
    assert doctor["works"]
    [cost] = json.loads(_run("-m", "gpu_ci.cli", "cost", "--json", str(stack_file)))
    assert list(cost["pools"]) == ["toy"]


@pytest.mark.slow
def test_it_is_in_the_schemas_and_has_a_section_in_the_reference() -> None:
    editor, plugin, page = json.loads(_run("-c", _SCHEMAS))
    assert "toy-machines" in json.dumps(editor["properties"])
    assert "gpu-ci:gcp:ToyPool" in plugin["resources"]
    assert "## toy-machines" in page


@pytest.mark.slow
def test_the_program_deploys_it() -> None:
    rows = json.loads(_run("-c", _DEPLOYED, json.dumps(_STACK)))
    assert ["gpu-ci:gcp:ToyPool", "toy"] in rows
    assert ["gcp:compute/regionInstanceTemplate:RegionInstanceTemplate", "toy-template"] in rows
