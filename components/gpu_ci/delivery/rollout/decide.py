"""Decides the next action of a rollout from the state of the endpoint. All functions are pure.

Every action may be repeated: a write carries the etag of the state from which it was decided, and a deployed model has
the id of the rollout. So a program that was killed, or that lost an answer, reads the endpoint and decides again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpu_ci.delivery.judge import Minute, Verdict, judge
from gpu_ci.delivery.rollout.settings import ALL, Settings
from gpu_ci.delivery.rollout.state import (
    DEPLOY,
    DONE,
    OPEN,
    PAUSED,
    ROLLED_BACK,
    BadJournalError,
    Deployed,
    Journal,
    State,
    deployed_id,
)  # fmt: skip


class Write(NamedTuple):
    """Write the traffic split and the journal in one request."""

    split: Mapping[str, int]
    journal: Journal
    text: str


class Deploy(NamedTuple):
    """Deploy the canary of a journal, without traffic."""

    journal: Journal


class Undeploy(NamedTuple):
    """Remove a deployed model without traffic."""

    id: str
    text: str


class Wait(NamedTuple):
    """Read again after some time."""

    text: str
    verdict: Verdict | None = None


class End(NamedTuple):
    """There is nothing to do until a person or another command acts."""

    status: str
    """done, rolled-back, paused, open (the time of the command is over), none (no rollout) or error."""
    reason: str
    text: str


Action = Write | Deploy | Undeploy | Wait | End
_STILL_DEPLOYED = "if the new model is still being deployed, gpu-ci deploy watch undeploys it after that"


class RefusedError(Exception):
    """The endpoint is not in a state for this command."""

    def __init__(self, text: str, got: str, expected: str, hint: str) -> None:
        super().__init__(text)
        self.text, self.got, self.expected, self.hint = text, got, expected, hint


def judges(state: State) -> bool:
    """Return True if the next action depends on the counts of requests."""
    journal = state.journal()
    return journal is not None and journal.is_active and journal.step != DEPLOY and journal.rollout in state.deployed


def decide(
    state: State,
    settings: Settings,
    minutes: Sequence[Minute],
    now: int,
    failed: Mapping[str, str] | None = None,
    pending: Mapping[str, str] | None = None,
) -> Action:
    """Return the next action.

    Args:
        state: The endpoint, just read.
        settings: The settings.
        minutes: The counts of requests since the canary was deployed; empty without data.
        now: Seconds since 1970.
        failed: The errors of deploying or undeploying, by the id of the deployed model.
        pending: The running operations, by the id of the deployed model.
    """
    failed, pending = failed or {}, pending or {}
    journal = state.journal()
    if journal is None:
        return End("none", "no-rollout", f"{state.name} has no rollout")
    if not journal.is_active:
        return _close(state, journal, settings, failed, pending)
    if journal.stable and journal.stable not in state.deployed:
        hint = f"gpu-ci deploy rollback {state.name} --to DEPLOYED_MODEL_ID"
        text = f"another program removed the stable model {journal.stable}, so a rollback is not possible: {hint}"
        return End("error", "stable-missing", text)
    if dict(state.split) != journal.split():
        if journal.status == PAUSED:
            return End("paused", journal.reason, f"paused: {journal.reason}")
        text = f"another program changed the traffic split to {_shares(state.split)}; the split stays"
        return Write(state.split, journal._replace(status=PAUSED, reason="split-changed"), text)
    if journal.step == DEPLOY:
        return _deploy(state, journal, settings, now, failed, pending)
    if journal.rollout not in state.deployed:
        return _roll_back(state, journal, now, "canary-missing")
    return _judge(state, journal, settings, minutes, now)


def _deploy(
    state: State,
    journal: Journal,
    settings: Settings,
    now: int,
    failed: Mapping[str, str],
    pending: Mapping[str, str],
) -> Action:
    if journal.status == PAUSED:
        return End("paused", journal.reason, f"paused: {journal.reason}")
    if journal.rollout in failed:
        return _roll_back(state, journal, now, "deploy-failed", failed[journal.rollout])
    if now - journal.since >= settings.deploy_minutes * 60:
        return _roll_back(state, journal, now, "deploy-timeout", "" if journal.rollout in pending else _STILL_DEPLOYED)
    canary = state.deployed.get(journal.rollout)
    if canary is None:
        return Wait(f"{journal} is being deployed") if journal.rollout in pending else Deploy(journal)
    if canary.replicas < canary.least:
        return Wait(f"{journal} has {canary.replicas} of {canary.least} replicas")
    return _next(journal, settings, now)


def _next(journal: Journal, settings: Settings, now: int) -> Write:
    """Return the write that begins the next step, or that ends the rollout."""
    percent = settings.after(journal.step) if journal.stable else ALL
    is_done = journal.step == ALL or (percent == ALL and (settings.strategy == "immediate" or not journal.stable))
    later = journal._replace(step=percent, since=now, status=DONE if is_done else OPEN, reason="")
    return Write(later.split(), later, f"{journal} has {percent} % of the traffic{'; done' if is_done else ''}")


def _judge(state: State, journal: Journal, settings: Settings, minutes: Sequence[Minute], now: int) -> Action:
    rules, since = settings.rules(journal.step), -(-journal.since // 60)
    verdict = judge(minutes, rules, since, now // 60)
    if journal.step == ALL and verdict.reason not in ("errors", "slow", "ceiling"):
        # The stable model has no traffic now. The comparison before was for the last minutes of the step before.
        verdict = judge(minutes, rules.model_copy(update={"canary_alone": True}), since, now // 60)
    if verdict.answer == "rollback":
        return _roll_back(state, journal, now, verdict.reason)
    if journal.status == PAUSED:
        return End("paused", journal.reason, f"paused: {journal.reason}")
    if verdict.answer == "advance":
        return _next(journal, settings, now)
    if verdict.reason == "max-hold":
        text = f"{journal} stays at {journal.step} %: the step lasts {settings.max_hold} minutes longer than planned"
        return Write(state.split, journal._replace(status=PAUSED, reason="max-hold"), text)
    return Wait(f"{journal} has {journal.step} %: {verdict.reason}", verdict)


def _roll_back(state: State, journal: Journal, now: int, reason: str, details: str = "") -> Write:
    """Return the one write of a rollback: all traffic to the stable model."""
    closed = journal._replace(step=DEPLOY, since=now, status=ROLLED_BACK, reason=reason)
    target = state.deployed[journal.stable] if journal.stable else None
    text = f"{journal} is rolled back: {reason}{f' ({details})' if details else ''}"
    return Write(closed.split(), closed, f"{text}; {target} has all traffic" if target else text)


def _close(
    state: State, journal: Journal, settings: Settings, failed: Mapping[str, str], pending: Mapping[str, str]
) -> Action:
    """Return the removal of the next model that is not needed, or the end."""
    if journal.status == ROLLED_BACK:
        text = f"{journal} was rolled back: {journal.reason}"
        if journal.rollout not in state.deployed and journal.rollout in pending:
            return Wait(f"{journal} is still being deployed; it is undeployed after that")
    else:
        text = f"{journal} has all traffic"
    remaining = removable(state, settings.keep)
    for model in remaining:
        if model.id in pending:
            return Wait(f"{model} is being undeployed")
        if model.id not in failed:
            return Undeploy(model.id, f"{model} is undeployed")
    left = "; ".join(f"{each} was not undeployed and costs: {failed[each.id]}" for each in remaining)
    return End(journal.status, "undeploy-failed" if left else journal.reason, f"{text}; {left}" if left else text)


def removable(state: State, keep: int) -> list[Deployed]:
    """Return the model of a rolled back rollout, and the models of earlier rollouts that are not among the newest.

    A model with traffic, the stable model and models that gpu-ci did not deploy always stay. During a rollout all do.

    Args:
        state: The endpoint.
        keep: The number of models of rollouts that stay.
    """
    journal = state.journal()
    if journal is None or journal.is_active:
        return []
    is_bad = journal.status == ROLLED_BACK
    stays = {*state.split, journal.stable, *([] if is_bad else [journal.rollout])}
    ours = sorted((each for each in state.deployed.values() if each.is_ours), key=lambda each: (each.created, each.id))
    bad = [each for each in ours if is_bad and each.id == journal.rollout]
    others = [each for each in ours if each not in bad]
    return [each for each in bad + others[: max(0, len(others) - keep)] if each.id not in stays]


def start(state: State, model: str, version: str, settings: Settings, now: int) -> Write | End:
    """Return the write that opens a rollout, or the end if this version has the traffic or its rollout is open.

    Raise RefusedError if another rollout is open, or if the traffic is split.
    """
    journal = state.journal()
    if journal and journal.is_active:
        if (journal.model, journal.version) == (model, version):
            return End(journal.status, journal.reason, f"the rollout of {journal} is open")
        raise RefusedError(
            "a rollout is open", str(journal), "no open rollout", "gpu-ci deploy rollback ends it; watch continues it"
        )
    if journal and journal.status == ROLLED_BACK and journal.rollout in state.deployed.keys() - state.split.keys():
        raise RefusedError(
            "the model of the last rollout is still deployed", str(journal), "no rest of that rollout",
            f"gpu-ci deploy watch {state.name} undeploys it",
        )  # fmt: skip
    if len(state.split) > 1 or (state.deployed and not state.split):
        raise RefusedError(
            "the traffic is not on one model", _shares(state.split), "one deployed model with 100 %",
            "gpu-ci deploy rollback ENDPOINT --to DEPLOYED_MODEL_ID",
        )  # fmt: skip
    stable = next((state.deployed[key] for key in state.split), None)
    if stable and (stable.model, stable.version) == (model, version):
        return End(DONE, "", f"{stable} has all traffic already")
    if settings.machine is None and not (stable and "dedicatedResources" in stable.definition):
        raise RefusedError(
            "the machines of the canary are unknown", "no stable model with dedicatedResources",
            "machine in the settings", "add machine: {type: g2-standard-8, accelerator: NVIDIA_L4}",
        )  # fmt: skip
    rollout = deployed_id(state.name, model, version, now)
    opened = Journal(rollout, model, version, stable.id if stable else "", DEPLOY, now, OPEN)
    return Write(opened.split(), opened, f"{opened}: the rollout begins")


def pause(state: State) -> Write | None:
    """Return the write that pauses the open rollout; None if it is paused. Raise RefusedError without a rollout."""
    journal = _active(state)
    if journal.status == PAUSED:
        return None
    paused = journal._replace(status=PAUSED, reason="requested")
    return Write(state.split, paused, f"{journal} is paused at {journal.step} %")


def resume(state: State, now: int) -> Write | None:
    """Return the write that begins the step of a paused rollout again; None if it is open.

    Raise RefusedError without a rollout, or if a model of it was removed.
    """
    journal = _active(state)
    if journal.status == OPEN:
        return None
    needed = [each for each in (journal.stable, journal.rollout if journal.step else "") if each]
    if missing := [each for each in needed if each not in state.deployed]:
        raise RefusedError(
            "a model of the rollout was removed", f"no deployed model {', '.join(missing)}", "both models",
            f"gpu-ci deploy rollback {state.name} --to DEPLOYED_MODEL_ID",
        )  # fmt: skip
    resumed = journal._replace(status=OPEN, since=now, reason="")
    return Write(resumed.split(), resumed, f"{journal} is resumed at {journal.step} %")


def roll_back(state: State, now: int, to: str = "") -> Write | None:
    """Return the one write that gives all traffic to the stable model, or to the deployed model `to`.

    None if that is the state already. Raise RefusedError if there is no model to return to.
    """
    try:
        journal = state.journal()
    except BadJournalError:
        if not to:
            raise
        journal = None
    target = to or (journal.stable if journal else "")
    if target not in state.deployed and (target or journal is None or not journal.is_active):
        raise RefusedError(
            "there is no model to return to", f"the deployed models {', '.join(state.deployed) or 'none'}",
            f"{target or 'an earlier model'} among them",
            f"gpu-ci deploy rollback {state.name} --to DEPLOYED_MODEL_ID",
        )  # fmt: skip
    if journal is None or journal.rollout == to:
        found = state.deployed[to]
        closed = Journal(to, found.model, found.version or "0", "", ALL, now, DONE)
    else:
        closed = journal._replace(stable=target, step=DEPLOY, since=now, status=ROLLED_BACK, reason="requested")
    if journal and journal.status == closed.status and dict(state.split) == closed.split():
        return None
    text = f"{state.deployed[target] if target else 'no model'} has all traffic"
    is_late = journal and journal.is_active and journal.step == DEPLOY and journal.rollout not in state.deployed
    return Write(closed.split(), closed, f"{text}; {_STILL_DEPLOYED}" if is_late else text)


def _active(state: State) -> Journal:
    journal = state.journal()
    if journal is None or not journal.is_active:
        raise RefusedError(
            "no rollout is open", f"the last one is {journal.status}" if journal else "no rollout", "an open rollout",
            f"gpu-ci deploy start {state.name} MODEL@VERSION",
        )  # fmt: skip
    return journal


def _shares(split: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {percent} %" for key, percent in sorted(split.items())) or "no traffic"
