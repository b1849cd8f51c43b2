"""Explains a failed smoke check of nodes with the events of its pods, such as FailedScheduling.

Pulumi does not report these events. At the deadline of the Job, Kubernetes deletes the pods, but keeps their events for
an hour (kube-apiserver, --event-ttl).
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

_MOST_LINES = 3
_MOST_CHARACTERS = 300
# Reasons of events, by the stage of a pod (k8s.io/kubernetes v1.36.0, pkg/kubelet/events/event.go and
# pkg/controller/job; kubernetes/autoscaler, cluster-autoscaler/processors/status/eventing_scale_up_processor.go).
_RUNNING = ("NodeNotReady", "Evicted", "OOMKilling")
_STARTING = (
    "FailedToRetrieveImagePullSecret",
    "Failed",
    "FailedMount",
    "FailedCreatePodSandBox",
    "UnexpectedAdmissionError",
)
_WAITING = ("NotTriggerScaleUp", "TriggeredScaleUp", "FailedScheduling", "FailedCreate")
# Reasons of events that Cluster Autoscaler or Karpenter writes for a pending pod.
_BY_AUTOSCALER = ("NotTriggerScaleUp", "TriggeredScaleUp", "Nominated")
_NO_AUTOSCALER = (
    "no event TriggeredScaleUp or NotTriggerScaleUp: no Cluster Autoscaler has seen the pod, and without an "
    "autoscaler a node group of size 0 starts no node"
)


def causes(events: Iterable[Mapping[str, Any]], job: str) -> list[str]:
    """Return at most three lines about the events of a Job and its pods.

    Events of running pods come first, then events of starting pods, then events of pods that wait for a node.
    """
    latest: dict[str, str] = {}
    of_job = [event for event in sorted(events, key=_time) if _name(event) == job or _name(event).startswith(f"{job}-")]
    pods_with_node = {_name(event) for event in of_job if event.get("reason") == "Scheduled"}
    for event in of_job:
        reason = str(event.get("reason"))
        # If the pod got a node later, its events about waiting are skipped. Another pod of the Job may still wait.
        if reason not in _WAITING or _name(event) not in pods_with_node:
            latest[reason] = " ".join(str(event.get("message") or "").split())[:_MOST_CHARACTERS]
    autoscaler_runs = any(event.get("reason") in _BY_AUTOSCALER for event in of_job)
    no_autoscaler = [_NO_AUTOSCALER] if "FailedScheduling" in latest and not autoscaler_runs else []
    return [*_lines(latest, [*_RUNNING, *_STARTING, *_WAITING]), *no_autoscaler][:_MOST_LINES]


def _name(event: Mapping[str, Any]) -> str:
    return str((event.get("involvedObject") or {}).get("name"))


def _lines(latest: Mapping[str, str], reasons: Sequence[str]) -> list[str]:
    return [f"{reason}: {latest[reason]}" for reason in reasons if reason in latest][:_MOST_LINES]


def _time(event: Mapping[str, Any]) -> str:
    """Return the time of the last occurrence as text. Times in this format (RFC 3339, UTC) can be sorted as text."""
    series = event.get("series") or {}
    found = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(found or (event.get("metadata") or {}).get("creationTimestamp") or "")


_TIMEOUT_SEC = 20
# The number of events on a page, as in kubectl. The server sorts events by name, so all pages are read.
_PAGE_SIZE = 500
# The fields of a cluster that credential plugins can get. Files of the kubeconfig are not among them.
_OF_CLUSTER = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")


class UnreadableEventsError(Exception):
    """The events could not be read. The text has the reason, but no credentials."""


def events(kubeconfig: str, namespace: str) -> list[dict[str, Any]]:
    """Return the events of the namespace. Raise UnreadableEventsError on failure."""
    try:
        config = yaml.safe_load(kubeconfig)
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        url = f"{cluster['server'].rstrip('/')}/api/v1/namespaces/{namespace}/events"
        token = _token(user, cluster)
        authority = cluster.get("certificate-authority-data")
        tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None)
    except (AttributeError, OSError, ValueError, yaml.YAMLError, KeyError, TypeError, StopIteration):
        raise UnreadableEventsError("the kubeconfig has no cluster, or no user with a program or a token") from None
    try:
        return [event for page in _pages(url, token, tls) for event in page]
    except urllib.error.HTTPError as error:
        raise UnreadableEventsError(f"the API server returned {error.code} {error.reason}") from None
    except (OSError, ValueError, KeyError) as error:
        raise UnreadableEventsError(f"the API server did not answer ({type(error).__name__})") from None


def _pages(url: str, token: str, tls: ssl.SSLContext) -> Iterator[list[dict[str, Any]]]:
    """Yield the pages of a list.

    Source: kubernetes.io/docs/reference/using-api/api-concepts, "Retrieving large results sets in chunks".
    """
    query = {"limit": str(_PAGE_SIZE)}
    while True:
        page = f"{url}?{urllib.parse.urlencode(query)}"
        headers = {"Accept": "application/json", "Authorization": f"Bearer {token}"}
        request = urllib.request.Request(page, headers=headers)  # noqa: S310 - the user's own
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SEC, context=tls) as answer:  # noqa: S310 - the same
            found = json.load(answer)
        yield found["items"]
        if not found["metadata"].get("continue"):
            return
        query["continue"] = found["metadata"]["continue"]


def _named(entries: list[Any], name: str) -> Any:
    return next(each for each in entries if each["name"] == name)


def _token(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    """Return the token of a user that has one, or whose program returns one, as in the kubeconfig of a `Cluster`."""
    if plugin := user.get("exec"):
        return _from_plugin(plugin, cluster)
    return str(user["token"])


def _from_plugin(plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    """Run a credential plugin, such as `aws eks get-token` or `gke-gcloud-auth-plugin`, and return its token."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {key: value for key, value in cluster.items() if key in _OF_CLUSTER}
    request = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}
    variables = {each["name"]: each["value"] for each in plugin.get("env") or ()}
    environment = {**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(request)}
    try:
        completed = subprocess.run(
            [plugin["command"], *(plugin.get("args") or ())],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_TIMEOUT_SEC,
        )
        return str(json.loads(completed.stdout)["status"]["token"])
    except FileNotFoundError:
        raise UnreadableEventsError(f"{plugin['command']} is not installed") from None
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        raise UnreadableEventsError(f"{plugin['command']} returned no credentials for the cluster") from None
