"""What every kind of pool answers. A new kind is found by itself, also one of another package."""

from __future__ import annotations

import importlib
import importlib.util
import json
from typing import Any

import pytest
from gpu_ci.args import OPEN
from gpu_ci.cli.doctor.steps import Step
from gpu_ci.cli.init.command import OPTIONS
from gpu_ci.errors import ArgsError
from gpu_ci.kinds import cluster_kind_names, pool_kinds
from gpu_ci.pool_args import ManagedPool, PoolArgs
from gpu_ci.pool_kind import PoolKind
from gpu_ci.stack.site import Site
from gpu_preview.report.danger_rules import jobs

from tests.gpu_ci.test_contracts import alone

pytestmark = pytest.mark.usefixtures("short_definitions")

every_kind = pytest.mark.parametrize("kind", pool_kinds().values(), ids=pool_kinds())


def args_of(kind: PoolKind) -> PoolArgs:
    """The arguments of the example, as a stack file gives them: the late inputs are open."""
    on_aws, model = ":aws:" in kind.resource_type, kind.component.ARGS
    given = Site().wiring("acme-ci", ["us-east-1" if on_aws else "us-central1"])
    given |= {"region": "us-east-1", "subnets": {"us-east-1a": OPEN}} if on_aws else {}
    args, problems = model.parse(kind.example, model.wiring_of(given))
    assert problems == []
    assert isinstance(args, PoolArgs)
    return args


@every_kind
def test_its_folder_has_the_same_files_and_its_component_the_same_answers(kind: PoolKind) -> None:
    component = kind.component
    assert [importlib.import_module(f"{kind.package}.{name}") for name in ("args", "component", "kind")]
    assert component.ARGS.__module__ == f"{kind.package}.args"
    assert component.ARGS.__name__ == f"{component.__name__}Args"
    assert (kind.resource_type, kind.example) == (component.TYPE, component.EXAMPLE)
    assert (kind.entry_name, kind.on_cluster) == (component.ENTRY_NAME, component.ON_CLUSTER)
    assert kind.on_cluster in ("", *cluster_kind_names())


@every_kind
def test_it_answers_what_its_machines_cost(kind: PoolKind) -> None:
    args = args_of(kind)
    demand, metered = args.demand("l4"), args.metered("l4")
    assert (demand is None) != (metered is None)
    assert (demand or metered).pool == "l4"  # type: ignore[union-attr]


@every_kind
def test_its_runners_have_labels_exactly_if_it_registers_runners(kind: PoolKind) -> None:
    args = args_of(kind)
    labels = args.runner_labels_of("l4")
    assert bool(labels) == bool(args.REGISTERED_BY)
    assert args.default_labels("l4") in ([], labels)


@every_kind
def test_it_reports_missing_and_unknown_fields_by_their_path(kind: PoolKind) -> None:
    missing = kind.component.ARGS.choice_problems({})
    assert missing
    assert {each.path for each in missing} <= set(kind.example)
    [unknown] = kind.component.ARGS.choice_problems({**kind.example, "unknownField": 1})
    assert unknown.path == "unknownField"
    assert isinstance(args_of(kind).problems_with_runners(kind.example, True), list)


@every_kind
def test_the_program_sets_its_late_fields_and_a_stack_file_cannot(kind: PoolKind) -> None:
    model = kind.component.ARGS
    late = model.open_wiring()
    assert set(late) <= model.WIRING <= set(model.model_fields)
    needed = {name for name in model.WIRING if model.model_fields[name].is_required()}
    assert needed <= set(late)
    assert not model.WIRING & set(kind.example)
    if needed:
        with pytest.raises(ArgsError):
            model(**kind.example)


@every_kind
def test_its_outputs_are_json(kind: PoolKind) -> None:
    assert kind.component.output_names()
    outputs = args_of(kind).outputs("l4")
    assert json.loads(json.dumps(outputs)) == outputs


@every_kind
def test_a_runner_manager_gets_an_entry_only_for_machines_that_register_runners(kind: PoolKind) -> None:
    managed = alone(kind.component).component.managed()
    assert managed is None or (isinstance(managed, ManagedPool) and args_of(kind).REGISTERED_BY == "machines")


@every_kind
def test_previews_know_the_resources_that_its_jobs_run_on(kind: PoolKind) -> None:
    assert set(kind.job_types) <= {row.type for row in alone(kind.component).deployment.rows}
    assert [each for each in kind.job_types if jobs.of_type(each) is None] == []


@every_kind
def test_its_steps_of_doctor_are_in_its_folder(kind: PoolKind) -> None:
    assert kind.doctor == (importlib.util.find_spec(kind.doctor_module) is not None)
    steps: Any = importlib.import_module(kind.doctor_module).STEPS if kind.doctor else ()
    assert all(isinstance(step, Step) and step.expected for step in steps)


@every_kind
def test_init_has_the_options_that_it_needs(kind: PoolKind) -> None:
    assert set(kind.init_options) <= set(OPTIONS)


@every_kind
def test_its_example_is_a_pool_of_a_stack_file(kind: PoolKind) -> None:
    assert list(args_of(kind).prerequisites("gpu-ci:pools.l4")) is not None
