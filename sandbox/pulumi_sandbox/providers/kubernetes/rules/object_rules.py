"""Check the API server's rules for kinds in CI stacks that no schema contains.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/{core,batch,apps}/validation/validation.go. The rules of some kinds and of
parts of pods are in modules of their own.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import (
    LABEL_MOST,
    data_key,
    dns_label,
    dns_subdomain,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from pulumi_sandbox.providers.kubernetes.rules import pod_affinity, pod_annotations, pod_rules, rollouts, stateful_sets
from pulumi_sandbox.providers.kubernetes.rules.claims import claim
from pulumi_sandbox.providers.kubernetes.rules.job_policies import policies
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, pairs
from pulumi_sandbox.providers.kubernetes.rules.policies import network_policy, role, role_binding
from pulumi_sandbox.providers.kubernetes.rules.quotas import quota
from pulumi_sandbox.providers.kubernetes.rules.secrets import secret_type
from pulumi_sandbox.providers.kubernetes.rules.selectors import is_empty, matches, selector
from pulumi_sandbox.providers.kubernetes.rules.services import service
from pulumi_sandbox.providers.kubernetes.rules.volume_rules import volumes
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown

Rule = Callable[[Mapping[str, Any]], Iterator[Problem]]
# The maximum size of all values of a ConfigMap or a Secret in bytes (core/types.go, MaxSecretSize).
DATA_MOST = 1024 * 1024
JOB_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
MOST_INDEXED_PARALLELISM = 100_000


def check(group: str, kind: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _metadata(kind, given.get("metadata"))
    rule = RULES.get((group, kind))
    if rule:
        yield from rule(given)


def _metadata(kind: str, given: Any) -> Iterator[Problem]:
    """Check the metadata (ValidateObjectMeta). For most kinds, the name must be a DNS subdomain."""
    name = inner(given, "name")
    # A role's name is a path segment (ValidatePathSegmentName), which may contain a colon.
    if isinstance(name, str) and name and not kind.endswith(("Role", "RoleBinding")):
        rule = dns_label if kind in ("Namespace", "Service", "StatefulSet") else dns_subdomain
        yield from (invalid("metadata.name", name, message) for message in rule(name))
    prefix = inner(given, "generateName")
    if kind == "Service" and isinstance(prefix, str) and prefix:
        # The server adds random letters (pkg/api/validation/name_functions.go, maskTrailingDash).
        masked = f"{prefix[:-1]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from (invalid("metadata.generateName", prefix, message) for message in dns_label(masked))
    namespace = inner(given, "namespace")
    if isinstance(namespace, str) and namespace:
        yield from (invalid("metadata.namespace", namespace, message) for message in dns_label(namespace))
    yield from pod_rules.labels("metadata.labels", inner(given, "labels"))
    yield from pod_rules.annotation_names("metadata.annotations", inner(given, "annotations"))


def _check_counts(spec: Any, *names: str) -> Iterator[Problem]:
    """Check that the named fields are not negative (ValidateNonnegativeField)."""
    for name in names:
        value = inner(spec, name)
        if isinstance(value, int | float) and value < 0:
            yield invalid(f"spec.{name}", value, "must be greater than or equal to 0")


def _workload(kind: str, rollout: Callable[[Any], Iterator[Problem]] | None = None) -> Rule:
    """Return the rule for a Deployment, DaemonSet or ReplicaSet."""

    def check(given: Mapping[str, Any]) -> Iterator[Problem]:
        spec = given.get("spec")
        if isinstance(spec, Unknown):
            return
        yield from _check_counts(spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
        yield from _check_pods(kind, spec, inner(spec, "template"))
        if rollout:
            yield from rollout(spec)

    return check


def _stateful_set(given: Mapping[str, Any]) -> Iterator[Problem]:
    spec = given.get("spec")
    if isinstance(spec, Unknown):
        return
    yield from stateful_sets.stateful_set(spec)
    yield from _check_counts(spec, "replicas", "minReadySeconds")
    yield from _check_pods("statefulset", spec, stateful_sets.pod_template(spec))


def _check_pods(kind: str, spec: Any, template: Any) -> Iterator[Problem]:
    """Check the pods of a workload. The selector must match the template's labels, and pods must always restart."""
    selector_input = inner(spec, "selector")
    selector_problems = list(selector("spec.selector", selector_input))
    yield from selector_problems
    if isinstance(selector_input, Mapping) and is_empty(selector_input):
        yield invalid("spec.selector", {}, f"empty selector is invalid for {kind}")
    elif selector_input is not None and not selector_problems:
        yield from _check_selection(selector_input, template)
    policy = inner(template, "spec", "restartPolicy")
    if isinstance(policy, str) and policy != "Always":
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    yield from _template(template)


def _template(template: Any) -> Iterator[Problem]:
    yield from pod_rules.template("spec.template", template)
    pod = inner(template, "spec")
    yield from volumes("spec.template.spec", pod)
    if inner(pod, "ephemeralContainers"):
        path = "spec.template.spec.ephemeralContainers"
        yield forbidden(path, "ephemeral containers not allowed in pod template")
    yield from pod_affinity.pod("spec.template.spec", pod)


def _check_selection(selector_input: Any, template: Any) -> Iterator[Problem]:
    labels = inner(template, "metadata", "labels")
    labels = {} if labels is None and isinstance(template, Mapping) else labels
    if matches(selector_input, labels) is False:
        yield invalid("spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`")


def _job(given: Mapping[str, Any]) -> Iterator[Problem]:
    spec, template = given.get("spec"), inner(given, "spec", "template")
    if isinstance(spec, Unknown):
        return
    if inner(spec, "selector") is not None and inner(spec, "manualSelector") is not True:
        yield invalid("spec.selector", inner(spec, "selector"), "`selector` not auto-generated")
    elif isinstance(inner(spec, "selector"), Mapping):
        yield from _check_selection(inner(spec, "selector"), template)
    yield from _check_counts(spec, *JOB_COUNTS)
    mode, name = inner(spec, "completionMode"), inner(given, "metadata", "name")
    if isinstance(mode, str) and mode not in ("NonIndexed", "Indexed"):
        yield unsupported("spec.completionMode", mode, ("NonIndexed", "Indexed"))
    if isinstance(name, str) and len(name) > LABEL_MOST:
        # The pods have the Job's name in two labels: job-name and batch.kubernetes.io/job-name.
        yield from [invalid("spec.template.labels", name, too_long(LABEL_MOST))] * 2
    if mode == "Indexed":
        yield from _check_indexed(spec, name)
    elif not isinstance(mode, Unknown):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if isinstance(inner(spec, field), int):
                yield invalid(f"spec.{field}", inner(spec, field), "requires indexed completion mode")
    yield from policies(spec)
    yield from _template(template)
    if not isinstance(template, Unknown) and not isinstance(inner(template, "spec"), Unknown):
        yield from _check_restart_policy(
            "spec.template.spec.restartPolicy", inner(template, "spec", "restartPolicy"), spec
        )


def _check_restart_policy(path: str, policy: Any, spec: Any) -> Iterator[Problem]:
    """Check that the pods of a Job do not always restart."""
    if policy in (None, "", "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif isinstance(policy, str) and policy not in ("OnFailure", "Never"):
        yield unsupported(path, policy, ("OnFailure", "Never"))
    elif policy == "OnFailure" and inner(spec, "podFailurePolicy") is not None:
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _check_indexed(spec: Any, name: Any) -> Iterator[Problem]:
    completions, parallelism = inner(spec, "completions"), inner(spec, "parallelism")
    # If neither is given, both are 1 (pkg/apis/batch/v1/defaults.go, SetDefaults_Job).
    if completions is None and parallelism is not None:
        yield required("spec.completions", "when completion mode is Indexed")
    elif isinstance(completions, int) and completions > 0 and isinstance(name, str):
        host = f"{name}-{completions - 1}"
        if any(dns_label(host)):
            yield invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {host}")
    if isinstance(parallelism, int) and parallelism > MOST_INDEXED_PARALLELISM:
        most = f"must be less than or equal to {MOST_INDEXED_PARALLELISM} when completion mode is Indexed"
        yield invalid("spec.parallelism", parallelism, most)


def _check_keys(field: str, given: Any) -> Iterator[Problem]:
    """Check the keys of a map (k8s.io/apimachinery v0.36.0, pkg/util/validation, IsConfigMapKey)."""
    for name, _ in pairs(given):
        yield from (invalid(f"{field}[{name}]", name, message) for message in data_key(name))


def _config_map(given: Mapping[str, Any]) -> Iterator[Problem]:
    plain, binary = given.get("data"), given.get("binaryData")
    yield from _check_keys("data", plain)
    for name, _ in pairs(plain):
        if isinstance(binary, Mapping) and name in binary:
            yield invalid(f"data[{name}]", name, "duplicate of key present in binaryData")
    yield from _check_keys("binaryData", binary)
    # The error is about the whole object.
    yield from _check_size("", plain, binary, "binaryData")


def _secret(given: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _check_keys("data", given.get("data"))
    yield from _check_keys("data", given.get("stringData"))
    yield from _check_size("data", given.get("stringData"), given.get("data"), "data")
    yield from secret_type(given)


def _check_size(path: str, plain: Any, encoded: Any, field: str) -> Iterator[Problem]:
    size = sum(len(str(value).encode()) for _, value in pairs(plain))
    for name, value in pairs(encoded):
        try:
            size += len(base64.b64decode(str(value), validate=True))
        except binascii.Error:
            # The message does not contain the value, which may be secret. Go reports the first wrong byte, or the start
            # of an incomplete group of four (encoding/base64, CorruptInputError).
            wrong = re.search("[^A-Za-z0-9+/=]|=(?=[^=])", str(value))
            at = wrong.start() if wrong else len(str(value)) // 4 * 4
            yield Problem(f"{field}.{name}", f"error decoding from json: illegal base64 data at input byte {at}")
    if size > DATA_MOST:
        yield Problem(path, f"Too long: may not be more than {DATA_MOST} bytes")


def _pod(given: Mapping[str, Any]) -> Iterator[Problem]:
    yield from pod_rules.spec("spec", given.get("spec"))
    yield from volumes("spec", given.get("spec"))
    yield from pod_affinity.pod("spec", given.get("spec"), inner(given, "metadata", "labels"))
    yield from pod_affinity.alone(given)
    yield from pod_annotations.check(given)


RULES: dict[tuple[str, str], Rule] = {
    ("apps", "DaemonSet"): _workload("daemonset", rollouts.daemon_set),
    ("apps", "Deployment"): _workload("deployment", rollouts.deployment),
    # The API's message for a ReplicaSet names a Deployment.
    ("apps", "ReplicaSet"): _workload("deployment"),
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("core", "ConfigMap"): _config_map,
    ("core", "PersistentVolumeClaim"): claim,
    ("core", "Pod"): _pod,
    ("core", "ResourceQuota"): quota,
    ("core", "Secret"): _secret,
    ("core", "Service"): service,
    ("networking.k8s.io", "NetworkPolicy"): network_policy,
    ("rbac.authorization.k8s.io", "ClusterRole"): role(namespaced=False),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): role_binding(namespaced=False),
    ("rbac.authorization.k8s.io", "Role"): role(namespaced=True),
    ("rbac.authorization.k8s.io", "RoleBinding"): role_binding(namespaced=True),
}
