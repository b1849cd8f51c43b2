"""Checks the clusters in a stack file, each with the model of its kind, and the pools that refer to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from .. import extras, naming
from ..errors import ArgsError, Problem, did_you_mean, in_yaml, shape
from ..kinds import cluster_for, cluster_kind_names
from ..validation_errors import join
from .hints import section

if TYPE_CHECKING:
    from ..kubernetes.cluster import Cluster, PoolEntry
    from ..kubernetes.kueue import KueueArgs

CLUSTERS = "gpu-ci:clusters"
DEFAULT_KIND = "eks"
"""The kind of clusters without the field `kind`. For a long time, there was no other kind."""


@dataclass(frozen=True)
class KnownCluster:
    """The facts about a cluster that the check of a pool needs."""

    kind: str
    """The kind; empty if it is invalid."""
    wiring: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that the cluster gives its pools, as far as they are known before deployment."""


def of_kind(clusters: Any, kind: str) -> dict[str, Any]:
    """Return the clusters of one kind, as they are in the stack file."""
    return {name: each for name, each in (clusters or {}).items() if _kind(each) == kind}


def check(clusters: Any, pools: Iterable[PoolEntry] = ()) -> tuple[dict[str, Cluster], list[Problem]]:
    """Return the valid clusters by name, and every problem of the clusters and of the pools that refer to them."""
    if clusters is None:
        return {}, []
    if not isinstance(clusters, Mapping):
        expected = "clusters by their names"
        hint = f"such as {in_yaml({'ci': _model(DEFAULT_KIND).EXAMPLE})}"
        return {}, [Problem(CLUSTERS, "must be a map", shape(clusters), expected, hint, rule="wrong-type")]
    valid: dict[str, Cluster] = {}
    choices, found = list(pools), list[Problem]()
    for name, each in sorted(clusters.items()):
        path, kind = join(CLUSTERS, name), _kind(each)
        on = [pool for pool in choices if pool.choices.get("clusterName") == name]
        if not isinstance(each, Mapping) or not each:
            found.append(_without_fields(path, each, next((pool.on_cluster for pool in on if pool.on_cluster), "")))
            continue
        if not kind:
            found.append(_unknown_kind(path, each))
            continue
        model = _model(kind)
        args, wrong = section(model, path, each)
        if args is not None:
            valid[name] = args
        of_kind = [pool for pool in on if pool.on_cluster == kind]
        found += wrong + _shared_namespaces(path, model, each, of_kind) + model.problems_with_pools(path, each, of_kind)
        found += _queue_problems(path, each, of_kind)
    return valid, found


def _model(kind: str) -> type[Cluster]:
    """Return the model of a kind. This loads the packages of its cloud and of Kubernetes."""
    return cluster_for(kind)


def _kind(given: Any) -> str:
    """Return the kind of a cluster, or an empty text if it is not one of the kinds."""
    kind = given.get("kind", DEFAULT_KIND) if isinstance(given, Mapping) else DEFAULT_KIND
    return kind if kind in cluster_kind_names() else ""


def _unknown_kind(path: str, given: Mapping[str, Any]) -> Problem:
    kind, kinds = given["kind"], cluster_kind_names()
    got = repr(kind) if isinstance(kind, str) else shape(kind)
    hint = did_you_mean(str(kind), kinds) or f"such as kind: {DEFAULT_KIND}"
    return Problem(f"{path}.kind", "unknown kind of cluster", got, f"one of {', '.join(kinds)}", hint, "unknown-kind")


def _without_fields(path: str, given: Any, kind: str) -> Problem:
    """Report a cluster that is not a map with fields. The hint has the fields of the kind that its pools need."""
    text = "has no fields" if given is None or given == {} else "must be a map"
    example = in_yaml(_model(kind or DEFAULT_KIND).EXAMPLE)
    return Problem(path, text, shape(given), "the fields of an existing cluster", f"such as {example}", "wrong-type")


def namespace_of_pool(cluster: str, pool: str) -> str:
    """Return the namespace of a pool whose jobs run in pods of their own. `cluster` is the cluster's namespace."""
    return naming.fit(f"{cluster}-{pool}", 63)


def _shared_namespaces(
    path: str, model: type[Cluster], given: Mapping[str, Any], pools: Iterable[PoolEntry]
) -> list[Problem]:
    """Report components with the same namespace, or with that of a pool whose jobs run in pods of their own.

    Each component creates its namespace, and the second creation fails.
    """
    values = {name: given.get(to_camel(name)) if name else given for name in model.NAMESPACES}
    chosen = {
        name: each["namespace"] for name, each in values.items() if isinstance(each, Mapping) and "namespace" in each
    }
    defaults = {name: _default_namespace(model, name) for name in values if name not in chosen}
    owners = {defaults[name]: name for name in defaults if values[name] is not None or not _is_optional(model, name)}
    present = {name: namespace for namespace, name in owners.items()} | chosen
    found = [
        (name, namespace, model.NAMESPACES[owner])
        for name, namespace in chosen.items()
        if isinstance(namespace, str) and (owner := owners.setdefault(namespace, name)) != name
    ]
    own = {namespace_of_pool(str(present[""]), pool.name): pool.name for pool in pools if _has_job_pods(pool)}
    found += [
        (name, namespace, f"pool {own[namespace]}")
        for name, namespace in present.items()
        if name and isinstance(namespace, str) and namespace in own
    ]
    return [
        Problem(
            ".".join(filter(None, (path, to_camel(name), "namespace"))),
            f"is already the namespace of the {owner}",
            repr(namespace),
            "a different namespace for each component",
            "give one of the two another name",
            rule="duplicate-namespace",
        )
        for name, namespace, owner in found
    ]


def _has_job_pods(pool: PoolEntry) -> bool:
    """Return True for a pool whose jobs run in pods of their own. Its fields may be invalid."""
    runner = pool.choices.get("runner")
    mode = runner.get("containerMode") if isinstance(runner, Mapping) else None
    return isinstance(mode, Mapping) and mode.get("kind") in ("kubernetes", "kubernetes-novolume")


def _is_optional(model: type[Cluster], name: str) -> bool:
    """Return True for a field whose component is created only if the stack file has the field."""
    return bool(name) and model.model_fields[name].default is None


def _default_namespace(model: type[Cluster], name: str) -> Any:
    """Return the default namespace of a component, by its field of the cluster."""
    annotation: Any = model.model_fields[name].annotation if name else model
    [owner] = [each for each in get_args(annotation) or (annotation,) if each is not NoneType]
    return owner.model_fields["namespace"].default


def unused(clusters: Iterable[str], taken: Collection[Any]) -> list[str]:
    """Return a warning for each cluster without a pool and without an image pipeline."""
    return [
        f"{join(CLUSTERS, name)}: no pool uses this cluster, so the stack creates nothing on it; hint: remove it, or "
        "set it as the clusterName of a pool"
        for name in sorted(clusters)
        if name not in taken
    ]


def marks(clusters: Any, project: str) -> set[tuple[str, str, str]]:
    """Return facts about the clusters of a stack file. Files that share one of them describe the same cluster."""
    found = set()
    for name, each in clusters.items() if isinstance(clusters, Mapping) else ():
        if isinstance(name, str) and isinstance(each, Mapping) and (model := _installed_model(_kind(each))):
            found |= {(name, model.CLUSTER_KIND, mark) for mark in model.marks(each, project)}
    return found


def known(clusters: Any) -> dict[str, KnownCluster]:
    """Return the facts about each cluster that the checks of pools need. The clusters may be invalid."""
    found = {}
    for name, each in clusters.items() if isinstance(clusters, Mapping) else ():
        kind = _kind(each) if isinstance(each, Mapping) and each else ""
        found[str(name)] = KnownCluster(kind, _known_wiring(kind, each))
    return found


def _known_wiring(kind: str, given: Any) -> dict[str, Any]:
    """Return the arguments that a cluster gives its pools."""
    model = _installed_model(kind) if isinstance(given, Mapping) else None
    return model.known_wiring(given) if model else {}


def _installed_model(kind: str) -> type[Cluster] | None:
    """Return the model of a kind. Return None for an empty kind, or without its package, which pools report."""
    try:
        return _model(kind) if kind else None
    except ModuleNotFoundError as error:
        if not extras.hint(error.name or ""):
            raise
        return None


def unknown(path: str, choices: Mapping[str, Any], known: Collection[str], needed: str) -> list[Problem]:
    """Report a pool on a cluster that the stack file does not describe. `needed` is the kind of cluster it needs."""
    name = choices.get("clusterName")
    if not needed or not isinstance(name, str) or name in known:
        return []
    others = f"one of {', '.join(known)}" if known else f"a cluster under {CLUSTERS}"
    example = in_yaml({name: _model(needed).EXAMPLE})
    hint = did_you_mean(name, known) or f"describe it under {CLUSTERS}, such as {example}"
    return [
        Problem(
            join(path, "clusterName"),
            f"is not a cluster of {CLUSTERS}",
            repr(name),
            others,
            hint,
            rule="unknown-cluster",
        )
    ]


def of_other_kind(
    path: str, choices: Mapping[str, Any], known: Mapping[str, KnownCluster], kind: str, needed: str
) -> list[Problem]:
    """Report a pool or pipeline on a cluster of another kind than its kind needs.

    Args:
        path: The path of the pool or pipeline.
        choices: Its fields.
        known: The clusters.
        kind: The kind of the pool or pipeline.
        needed: The kind of cluster that it needs; empty if it needs no cluster.
    """
    name = choices.get("clusterName")
    cluster = known.get(name) if isinstance(name, str) else None
    if not needed or cluster is None or cluster.kind in ("", needed):
        return []
    fitting = [other for other, each in known.items() if each.kind == needed]
    expected = f"one of {', '.join(fitting)}" if fitting else f"a cluster of kind {needed}"
    text = f"is a cluster of kind {cluster.kind}, but kind {kind} needs a cluster of kind {needed}"
    hint = f"such as clusterName: {fitting[0]}" if fitting else "use the kind for this cluster, or another cluster"
    return [Problem(join(path, "clusterName"), text, repr(name), expected, hint, "other-kind-of-cluster")]


def _queue_problems(path: str, described: Mapping[str, Any], pools: Sequence[PoolEntry]) -> list[Problem]:
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
    args = _valid_kueue(kueue)
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


def _valid_kueue(kueue: Any) -> KueueArgs | None:
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
