"""Runs a rollout: reads the endpoint, decides, acts, and waits, until there is nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from gpu_ci.delivery.judge import Minute
from gpu_ci.delivery.rollout.decide import Deploy, End, Undeploy, Wait, Write, decide, judges
from gpu_ci.delivery.rollout.settings import Settings
from gpu_ci.delivery.rollout.state import BadJournalError, Journal, State

POLL_SEC = 30.0
_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC = 1.0, 60.0
_MOST_ATTEMPTS = 8
MOST_TROUBLES = 30
"""The failed passes in a row after which the loop ends: 27 minutes. The rollout stays as it is."""


class ConflictError(Exception):
    """The endpoint is not in the state that a request assumed: read it again, and decide again."""


class UnavailableError(Exception):
    """The service is not available, or it limits the rate. The request may have been executed."""


class RejectedError(Exception):
    """The service refuses the request, now and later."""


class Target(Protocol):
    """A service whose traffic a rollout moves. Every method raises ConflictError, UnavailableError or RejectedError."""

    def read(self) -> State:
        """Return the state."""

    def write(self, state: State, split: Mapping[str, int], labels: Mapping[str, str]) -> None:
        """Write split and labels in one request, if the endpoint still has the etag of the state."""

    def deploy(self, state: State, journal: Journal, settings: Settings) -> str:
        """Request the canary without traffic, and return the operation."""

    def undeploy(self, id: str) -> str:  # noqa: A002 - the field's name
        """Request the removal of a deployed model, and return the operation."""

    def result(self, operation: str) -> tuple[bool, str]:
        """Return whether an operation has ended, and its error."""

    def minutes(self, state: State, journal: Journal, settings: Settings, now: int) -> Sequence[Minute]:
        """Return the complete minutes of both models since the canary was deployed."""


class Event(NamedTuple):
    """A change, or a new reason to wait."""

    time: int
    split: Mapping[str, int]
    rollout: str
    text: str
    is_change: bool


class Clock(NamedTuple):
    """The time of a rollout. Tests replace it."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


def command(
    target: Target, make: Callable[[State], Write | End | None], clock: Clock
) -> tuple[State, Write | End | None]:
    """Decide from the current state, and write. Return the state and the decision.

    After a conflict or a lost answer, the decision is made again from the new state.

    Raises:
        RefusedError: The endpoint is not in a state for this command.
        UnavailableError, ConflictError: The service has not executed the write for 2 minutes.
        RejectedError, BadJournalError: As in `run`.
    """
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        try:
            state = target.read()
            action = make(state)
            if isinstance(action, Write):
                target.write(state, action.split, state.merged(action.journal))
                state = state._replace(split=action.split, labels=state.merged(action.journal))
            return state, action
        except (ConflictError, UnavailableError):
            if attempt == _MOST_ATTEMPTS:
                raise
        clock.sleep(_pause(attempt))
    raise AssertionError


def run(
    target: Target, settings: Settings, clock: Clock, report: Callable[[Event], None], until: float | None = None,
    only_undeploy: bool = False,
) -> End:  # fmt: skip
    """Continue the rollout of an endpoint until it ends, is paused, or the time is over.

    Args:
        target: The endpoint.
        settings: The settings.
        clock: The time and the pause.
        report: Gets each change, and each new reason to wait.
        until: The time to stop, in seconds since 1970. The rollout stays open. One pass is always made.
        only_undeploy: The last rollout has ended. If another one begins, end, because its settings are not known.
    """
    operations: dict[str, str] = {}
    failed: dict[str, str] = {}
    troubles, text = 0, ""

    def say(state: State | None, said: str, is_change: bool) -> None:
        nonlocal text
        if is_change or said != text:
            text = said
            journal = state.journal() if state else None
            split = state.split if state else {}
            report(Event(int(clock.now()), split, journal.rollout if journal else "", said, is_change))

    while True:
        state: State | None = None
        pause = POLL_SEC
        try:
            state = target.read()
            if only_undeploy and (journal := state.journal()) and journal.is_active:
                return End("error", "rollout-open", f"the rollout of {journal} has begun meanwhile")
            _poll(target, operations, failed)
            now = int(clock.now())
            minutes = _minutes(target, state, settings, now, partial(say, state))
            action = decide(state, settings, minutes, now, failed, operations)
            if isinstance(action, End):
                say(state, action.text, False)
                return action
            if isinstance(action, Write):
                target.write(state, action.split, state.merged(action.journal))
                after = state._replace(split=action.split, labels=state.merged(action.journal))
                say(after, action.text, True)
                failed.clear()
                pause = 0.0
            elif isinstance(action, Wait):
                say(state, action.text, False)
            else:
                pause, said = _operate(target, state, action, settings, operations, failed)
                say(state, said, False)
            troubles = 0
            if until is not None and now >= until and not isinstance(action, Write):
                return End("open", "time-over", text)
        except ConflictError as error:
            # The state has changed, or Google runs another operation of this endpoint.
            troubles += 1
            pause, problem = _pause(troubles), f"the endpoint has changed: {error}"
        except UnavailableError as error:
            troubles += 1
            pause, problem = _pause(troubles), str(error)
        except (RejectedError, BadJournalError) as error:
            return End("error", "journal" if isinstance(error, BadJournalError) else "refused", str(error))
        if troubles:
            say(None, problem, False)
            if troubles >= MOST_TROUBLES:
                return End("error", "unavailable", f"{problem}; gpu-ci deploy watch continues the rollout")
            if until is not None and clock.now() >= until:
                return End("open", "time-over", problem)
        clock.sleep(pause if until is None else min(pause, max(0.0, until - clock.now())))


def _operate(
    target: Target,
    state: State,
    action: Deploy | Undeploy,
    settings: Settings,
    operations: dict[str, str],
    failed: dict[str, str],
) -> tuple[float, str]:
    """Request the operation of an action. Return the pause after it, in seconds, and the text for the report."""
    key = action.journal.rollout if isinstance(action, Deploy) else action.id
    text = f"{action.journal} is being deployed" if isinstance(action, Deploy) else action.text
    try:
        if isinstance(action, Deploy):
            operations[key] = target.deploy(state, action.journal, settings)
        else:
            operations[key] = target.undeploy(key)
    except ConflictError as error:
        if isinstance(action, Undeploy):
            raise
        # Usually, an earlier request of a program that was killed is running. `deploy_minutes` limits it.
        return POLL_SEC, f"{action.journal} is not deployed yet: {error}"
    except RejectedError as error:
        failed[key] = str(error)
        return 0.0, text
    return POLL_SEC, text


def _poll(target: Target, operations: dict[str, str], failed: dict[str, str]) -> None:
    """Remove the operations that have ended, and record their errors."""
    for key, operation in list(operations.items()):
        try:
            is_done, error = target.result(operation)
        except RejectedError:  # Google forgets old operations
            is_done, error = True, ""
        if is_done:
            del operations[key]
        if error:
            failed[key] = error


def _minutes(
    target: Target, state: State, settings: Settings, now: int, say: Callable[[str, bool], None]
) -> Sequence[Minute]:
    """Return the counts of requests. Without an answer there is no data, and the verdict is hold."""
    journal = state.journal()
    if journal is None or not judges(state):
        return ()
    try:
        return target.minutes(state, journal, settings, now)
    except (ConflictError, UnavailableError, RejectedError) as error:
        say(f"the counts of requests cannot be read: {error}", False)
        return ()


def _pause(troubles: int) -> float:
    return min(_LONGEST_PAUSE_SEC, _FIRST_PAUSE_SEC * 2.0 ** (troubles - 1))
