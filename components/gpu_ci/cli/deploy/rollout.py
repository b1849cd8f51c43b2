"""`gpu-ci deploy start`, `watch`, `status`, `pause`, `resume`, `rollback` and `cleanup`: rollouts on Vertex AI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpu_ci.cli.deploy import rollout_inputs as inputs
from gpu_ci.cli.deploy import rollout_report as report
from gpu_ci.cli.durations import Duration
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.output import InputError, ProblemsFound, note, print_json
from gpu_ci.delivery.rollout import decide
from gpu_ci.delivery.rollout.decide import End, RefusedError, Write
from gpu_ci.delivery.rollout.loop import (
    ConflictError,
    Event,
    RejectedError,
    UnavailableError,
    command,
    run,
)
from gpu_ci.delivery.rollout.settings import Settings
from gpu_ci.delivery.rollout.state import BadJournalError, State
from gpu_ci.delivery.targets.vertex import VertexEndpoint

Function = TypeVar("Function", bound=Callable[..., Any])
_ERRORS = (ConflictError, UnavailableError, RejectedError, BadJournalError)
_LONGEST = "350m"  # a job on GitHub ends after 6 hours

_endpoint = click.argument("endpoint", metavar="ENDPOINT")
_settings = click.option("--settings", "file", metavar="FILE", help="The settings of the rollout, in YAML.")
_for = click.option("--for", "seconds", type=Duration(), default=_LONGEST, show_default=True, metavar="TIME",
                    help="Stop after this time, such as 50m. The rollout stays open.")  # fmt: skip


@click.command("start")
@_endpoint
@click.argument("model", metavar="MODEL@VERSION")
@_settings
@_for
@click.option("--detach", is_flag=True, help="Request the new model, and return; `watch` continues the rollout.")
@click.pass_context
def start(context: click.Context, /, endpoint: str, model: str, file: str | None, seconds: float, detach: bool) -> None:
    """Deploy a version of a model, and move the traffic to it step by step.

    The state of the rollout is in the labels of the endpoint: after a kill, `watch` continues it. A second rollout is
    refused while one is open.

    \b
    Exit codes:
      0  done: the new model has all traffic; with --detach: the rollout is open
      1  an error
      2  rolled back
      3  on hold: paused, or the time of --for is over

    \b
    Examples:
      gpu-ci deploy start projects/acme/locations/europe-west4/endpoints/7001 scan@4 --settings rollout.yaml
      gpu-ci deploy start projects/acme/locations/europe-west4/endpoints/7001 scan@4 --detach
    """
    mistakes = Mistakes()
    settings = inputs.read_settings(file, mistakes)
    inputs.check_endpoint(endpoint, mistakes)
    key, version = inputs.read_model(model, endpoint, mistakes)
    mistakes.refuse()
    target = inputs.connect(endpoint)
    state, action = _do(
        target, endpoint, lambda state: decide.start(state, key, version, settings, int(inputs.real_clock().now()))
    )
    if isinstance(action, End) and action.status == "done":
        note(action.text)
        print_json(report.document(state, action))
        return
    if action:
        note(action.text)
    end = _watch(target, settings, 0 if detach else seconds)
    context.exit(0 if detach and end.status == "open" else report.CODES[end.status])


@click.command("watch")
@_endpoint
@_settings
@_for
@click.pass_context
def watch(context: click.Context, /, endpoint: str, file: str | None, seconds: float) -> None:
    """Continue the rollout of an endpoint until it is done, rolled back or on hold.

    Use the settings of `start`. A paused rollout does not advance, but a bad model is rolled back. The exit codes are
    those of `start`, and 0 without a rollout.

    \b
    Examples:
      gpu-ci deploy watch projects/acme/locations/europe-west4/endpoints/7001 --settings rollout.yaml --for 50m
    """
    mistakes = Mistakes()
    settings = inputs.read_settings(file, mistakes)
    inputs.check_endpoint(endpoint, mistakes)
    mistakes.refuse()
    end = _watch(inputs.connect(endpoint), settings, seconds)
    context.exit(report.CODES[end.status])


@click.command("status")
@_endpoint
@click.pass_context
def status(context: click.Context, /, endpoint: str) -> None:
    """Print the rollout of an endpoint, its traffic split and its deployed models, as JSON.

    The exit codes are those of `start`, and 0 without a rollout.

    \b
    Examples:
      gpu-ci deploy status projects/acme/locations/europe-west4/endpoints/7001
    """
    state = _read(_target(endpoint), endpoint)
    end = _end_of(state)
    print_json(report.document(state, end))
    context.exit(report.CODES[end.status])


@click.command("pause")
@_endpoint
def pause(endpoint: str) -> None:
    """Keep the traffic split of the open rollout. A bad model is still rolled back by `watch`.

    \b
    Examples:
      gpu-ci deploy pause projects/acme/locations/europe-west4/endpoints/7001
    """
    _change(endpoint, decide.pause)


@click.command("resume")
@_endpoint
def resume(endpoint: str) -> None:
    """Begin the step of a paused rollout again. `watch` continues it.

    \b
    Examples:
      gpu-ci deploy resume projects/acme/locations/europe-west4/endpoints/7001
    """
    _change(endpoint, lambda state: decide.resume(state, int(inputs.real_clock().now())))


@click.command("rollback")
@_endpoint
@click.option(
    "--to", default="", metavar="ID", help="The deployed model that gets all traffic; by default the last one."
)
def rollback(endpoint: str, to: str) -> None:
    """Give all traffic back to the stable model in one write, then undeploy the new model.

    This also works after a rollout is done. Exit code 0: the stable model has all traffic.

    \b
    Examples:
      gpu-ci deploy rollback projects/acme/locations/europe-west4/endpoints/7001
      gpu-ci deploy rollback projects/acme/locations/europe-west4/endpoints/7001 --to 1826462858
    """
    target = _target(endpoint)
    _, action = _do(target, endpoint, lambda state: decide.roll_back(state, int(inputs.real_clock().now()), to))
    note(action.text if isinstance(action, Write) else "the traffic is there already")
    _fail_if(_watch(target, Settings(), Duration().convert(_LONGEST, None, None), closes=True))


@click.command("cleanup")
@_endpoint
@click.option("--keep", type=click.IntRange(1, 50), default=3, show_default=True, metavar="N",
              help="The number of models of rollouts that stay.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Undeploy them. Without this option, they are only listed.")
def cleanup(endpoint: str, keep: int, yes: bool) -> None:
    """Undeploy models of earlier rollouts, which cost as long as they are deployed.

    A model with traffic, the stable model, and models that gpu-ci did not deploy always stay. It is refused while a
    rollout is open.

    \b
    Examples:
      gpu-ci deploy cleanup projects/acme/locations/europe-west4/endpoints/7001
      gpu-ci deploy cleanup projects/acme/locations/europe-west4/endpoints/7001 --keep 2 --yes
    """
    target = _target(endpoint)
    state = _read(target, endpoint)
    journal = state.journal()
    if journal and journal.is_active:
        raise InputError(f"{endpoint}: a rollout is open", got=str(journal), expected="no open rollout",
                         hint=f"gpu-ci deploy watch {endpoint}")  # fmt: skip
    for each in decide.removable(state, keep):
        note(f"{each} {'is undeployed' if yes else 'would be undeployed: add --yes'}")
    if yes:
        _fail_if(_watch(target, Settings(keep=keep), Duration().convert(_LONGEST, None, None), closes=True))
    else:
        removed = [each.id for each in decide.removable(state, keep)]
        print_json(report.document(state, _end_of(state)) | {"removable": removed})


def _target(endpoint: str) -> VertexEndpoint:
    mistakes = Mistakes()
    inputs.check_endpoint(endpoint, mistakes)
    mistakes.refuse()
    return inputs.connect(endpoint)


def _read(target: VertexEndpoint, endpoint: str) -> State:
    """Return the state, whose journal can be read."""

    def check(state: State) -> None:
        state.journal()

    return _do(target, endpoint, check)[0]


def _change(endpoint: str, make: Callable[[State], Write | None]) -> None:
    state, action = _do(_target(endpoint), endpoint, make)
    note(action.text if isinstance(action, Write) else "nothing to do")
    print_json(report.document(state, _end_of(state)))


def _do(
    target: VertexEndpoint, endpoint: str, make: Callable[[State], Write | End | None]
) -> tuple[State, Write | End | None]:
    """Decide and write. Raise InputError if the command is refused, and ProblemsFound for an error of Google."""
    try:
        return command(target, make, inputs.real_clock())
    except RefusedError as error:
        raise InputError(f"{endpoint}: {error.text}", got=error.got, expected=error.expected, hint=error.hint) from None
    except _ERRORS as error:
        raise ProblemsFound(f"{endpoint}: {error}", [{"text": str(error)}]) from None


def _watch(target: VertexEndpoint, settings: Settings, seconds: float, closes: bool = False) -> End:
    """Run the rollout, and report it. With `closes`, the rollout has ended, and only models are undeployed."""
    clock, events = inputs.real_clock(), list[Event]()

    def tell(event: Event) -> None:
        events.append(event)
        report.show(event)

    end: End = End("error", "interrupted", "the command was interrupted; the rollout stays as it is")
    try:
        end = run(target, settings, clock, tell, clock.now() + seconds, closes)
    finally:
        try:
            state: State | None = target.read()
        except _ERRORS:
            state = None
        found = report.document(state, end)
        report.write_summary(target.name, events, found)
        print_json(found)
    if not events or events[-1].text != end.text or closes:
        note(end.text)
    return end


def _fail_if(end: End) -> None:
    if end.status == "error" or end.reason == "undeploy-failed":
        raise click.exceptions.Exit(1)


def _end_of(state: State) -> End:
    """Return the status of a rollout that nothing continues now."""
    journal = state.journal()
    if journal is None:
        return End("none", "no-rollout", "no rollout")
    return End(journal.status, journal.reason, f"{journal} is {journal.status}")
