"""Checks the pools of a cluster against its queues of Kueue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from ..errors import ArgsError, Problem, did_you_mean
from ..validation_errors import join

if TYPE_CHECKING:
    from ..kubernetes.cluster import PoolEntry
    from ..kubernetes.kueue import KueueArgs


def problems(path: str, described: Mapping[str, Any], pools: Sequence[PoolEntry]) -> list[Problem]:
    """Return the problems of pools whose runners would use no quota, or would never start.

    Args:
        path: The path of the cluster in the stack file.
        described: The fields of the cluster. They may be invalid.
        pools: The pools on the cluster.
    """
    kueue = described.get("kueue")
    if kueue is None:
        return [_without_kueue(path, pool) for pool in pools if pool.choices.get("queue") is not None]
    names = kueue.get("queues") if isinstance(kueue, Mapping) else None
    if not isinstance(names, Mapping) or not names:
        return []  # the check of the cluster's fields already reports this
    return [problem for pool in pools for problem in _queue(path, names, pool)] + _too_small(kueue, pools)


def _without_kueue(path: str, pool: PoolEntry) -> Problem:
    return Problem(
        f"{pool.path}.queue",
        f"needs Kueue on the cluster {pool.choices['clusterName']}: without it, no quota limits the runners",
        repr(pool.choices["queue"]),
        "no queue",
        f"describe the queues under {path}.kueue, or remove it",
        rule="queue-without-kueue",
    )


def _queue(path: str, names: Mapping[str, Any], pool: PoolEntry) -> list[Problem]:
    """Return the problem of a pool whose queue is missing or unknown, as a list of at most one."""
    queue, known = pool.choices.get("queue"), f"one of {', '.join(map(str, names))}"
    if queue is None:
        text = "is missing: without it, the runners of the pool would use GPUs without a quota"
        return [Problem(f"{pool.path}.queue", text, "nothing", known, f"such as queue: {next(iter(names))}", "missing")]
    if _is_name(queue) and queue not in names:
        hint = did_you_mean(queue, names) or f"describe its quota under {join(f'{path}.kueue.queues', queue)}"
        return [
            Problem(
                f"{pool.path}.queue", f"is not a queue of {path}.kueue", repr(queue), known, hint, rule="unknown-queue"
            )
        ]
    return []


def _too_small(kueue: Mapping[str, Any], pools: Sequence[PoolEntry]) -> list[Problem]:
    """Return the problems of pools with runners that their queue can never admit, even if nothing else uses its quota.

    Such runners wait forever, without an error.
    """
    args = valid(kueue)
    idle_gpus: Counter[str] = Counter()
    found = []
    for pool in pools if args else ():
        queue = pool.choices.get("queue")
        if args is None or not isinstance(queue, str) or queue not in args.queues:
            continue
        most, gpus = args.most_gpus(queue), _gpus_of_job(pool)
        limit = f"the {most} GPUs that the queue {queue} can use with all it may borrow"
        raise_quota = f"raise gpus or borrowingLimit of the queue {queue}"
        if gpus > most:
            text = f"is more than {limit}, so no runner would start"
            path = f"{pool.path}.runner.gpus"
            expected = f"{most} or less" if most else ""
            found.append(Problem(path, text, str(gpus), expected, raise_quota, "more-than-quota"))
            continue
        before, idle = idle_gpus[queue], _integer(pool.choices.get("minIdle"), 0)
        idle_gpus[queue] += idle * gpus
        if idle and before <= most < idle_gpus[queue]:
            others = f", and other pools use {before} of them for idle runners" if before else ""
            text = f"needs {idle * gpus} GPUs for idle runners, which is more than {limit}{others}"
            room, path = f"{(most - before) // gpus} or less", f"{pool.path}.minIdle"
            found.append(Problem(path, text, str(idle), room, raise_quota, "more-than-quota"))
    return found


def valid(kueue: Any) -> KueueArgs | None:
    """Return the arguments of Kueue, or None if they have problems, which are reported elsewhere.

    One such problem is that Pulumi's Kubernetes package is not installed.
    """
    if not isinstance(kueue, Mapping) or not kueue:
        return None
    try:
        from ..kubernetes.kueue import KueueArgs

        return KueueArgs(**kueue)
    except (ArgsError, ModuleNotFoundError):
        return None


def _is_name(queue: Any) -> bool:
    """Return False for an invalid name, which the check of the pool's fields reports."""
    from ..kubernetes.kueue_labels import QueueName

    try:
        TypeAdapter(QueueName).validate_python(queue)
    except ValidationError:
        return False
    return True


def _gpus_of_job(pool: PoolEntry) -> int:
    runner = pool.choices.get("runner")
    return _integer(runner.get("gpus"), 1) if isinstance(runner, Mapping) else 1


def _integer(value: Any, default: int) -> int:
    """Return an integer of the stack file. An invalid value is reported elsewhere."""
    return value if isinstance(value, int) and value > 0 else default
