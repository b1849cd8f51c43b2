"""Provide the offline kubernetes provider, which emulates an API server without a cluster."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pulumi_sandbox.providers import bridged
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.diff import UPDATE, Change
from pulumi_sandbox.providers.kubernetes import cluster as kubernetes_cluster
from pulumi_sandbox.providers.kubernetes import objects, operators, validation
from pulumi_sandbox.providers.kubernetes.helm.charts import RELEASE, RUNNER_SET
from pulumi_sandbox.providers.kubernetes.objects import inner
from pulumi_sandbox.providers.kubernetes.releases import DEFINITION, PATCH, Releases, release_status
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import Scheduler
from pulumi_sandbox.providers.kubernetes.workloads import await_rules
from pulumi_sandbox.providers.kubernetes.workloads.jobs import JOB, Jobs
from pulumi_sandbox.providers.kubernetes.workloads.pods import Workloads
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Context, Problem, Resource
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import Record, now

# Sources: pulumi-kubernetes, provider/pkg/kinds/kinds.go (at 94977969), `Namespaced`; for newer kinds,
# kubernetes.io/docs/reference/kubernetes-api.
CLUSTER_WIDE = frozenset(
    {
        "APIService", "AuditSink", "CertificateSigningRequest", "ClusterCIDR", "ClusterRole", "ClusterRoleBinding",
        "ClusterTrustBundle", "CSIDriver", "CSINode", "CustomResourceDefinition", "DeviceClass", "DeviceTaintRule",
        "FlowSchema", "IngressClass", "IPAddress", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume", "PodSecurityPolicy", "PriorityClass",
        "PriorityLevelConfiguration", "ResourceClass", "ResourcePoolStatusRequest", "ResourceSlice", "RuntimeClass",
        "ServiceCIDR", "StorageClass", "StorageVersionMigration", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment",
        "VolumeAttributesClass",
    }
)  # fmt: skip

# The fields that replace an object, by group and kind (pulumi-kubernetes, provider/pkg/provider/diff.go at 94977969,
# `forceNew`). They apply to all current versions of a group. `metadata.name` and `metadata.namespace` replace any kind.
# Kinds that no component creates are left out.
IDENTITY = ("metadata.name", "metadata.namespace")
REPLACES: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "DaemonSet"): ("spec.selector",),
    ("apps", "Deployment"): ("spec.selector",),
    ("batch", "Job"): ("spec.completions", "spec.parallelism", "spec.selector", "spec.template"),
    ("core", "ResourceQuota"): ("spec.scopes",),
    ("core", "Secret"): ("type",),
    ("core", "Service"): ("spec.clusterIP",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
}  # fmt: skip

# These fields also replace an object unless the provider sets enableSecretMutable or enableConfigMapMutable
# (pulumi_kubernetes provider.py).
DATA = {
    ("core", "Secret"): ("enableSecretMutable", ("stringData", "data")),
    ("core", "ConfigMap"): ("enableConfigMapMutable", ("binaryData", "data")),
}


def replacing(group: str, kind: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields whose change replaces an object, with these settings of the provider."""
    mutable, data = DATA.get((group, kind), ("", ()))
    return (*IDENTITY, *REPLACES.get((group, kind), ()), *(() if config.get(mutable) else data))


NAMESPACE = "kubernetes:core/v1:Namespace"
# The function of helm.v3.Chart.
RENDER = "kubernetes:helm:template"
NOT_RENDERED = (
    "the sandbox cannot render the chart {}, so it has no objects here\n"
    "  hint: use kubernetes.helm.v3.Release instead of Chart; the sandbox checks and emulates Releases of known charts"
)
# The first line is the API server's message (k8s.io/apimachinery, NewNotFound).
NO_NAMESPACE = (
    'namespaces "{0}" not found\n'
    "  hint: create the namespace in the stack, or, if it exists in the cluster, list it in sandbox.yaml: "
    "values: {{kubernetes: {{namespaces: [...]}}}}"
)


class Kubernetes(Cloud):
    """The provider of all kinds of the SDK and of any custom resource. Objects become ready at once."""

    package: ClassVar[str] = "kubernetes"
    coerces_scalars: ClassVar[bool] = False

    def start(self, context: Context) -> None:
        super().start(context)
        self._whole_world = context.world
        # A provider handles the objects of one cluster only.
        context.world = context.world.for_cluster(self.package, self.cluster)
        scheduler = Scheduler(context.world, lambda: self.lookups.values, self.cluster)
        self.workloads = Workloads(context.world, scheduler)
        self.releases = Releases(context.world, self.workloads)
        self.jobs = Jobs(context.world, context.workspace, self.workloads, context.cancelled)

    def config_replaces(self, old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
        return kubernetes_cluster.replaces(old, new, name)

    def cluster(self) -> str:
        return kubernetes_cluster.identity(self.context.config, self._whole_world)

    def autoname(self, res: Resource) -> None:
        """Set a missing name and a missing namespace.

        Source: pulumi-kubernetes at 94977969, provider.go, Check; helm_release.go, setDefaults.
        """
        namespace = self.context.config.get("namespace") or "default"
        given = res.inputs if res.token == RELEASE else res.inputs.get("metadata")
        if not isinstance(given, Mapping | None):
            return
        metadata = dict(given or {})
        old = (res.old_inputs or {}) if res.token == RELEASE else inner(res.old_inputs, "metadata") or {}
        is_patch = objects.kind(res.token).endswith("Patch")
        if not metadata.get("name") and not metadata.get("generateName") and not is_patch:
            keeps_name = res.token == RELEASE or objects.is_autonamed(old)
            metadata["name"] = (old.get("name") if keeps_name else None) or f"{res.name}-{res.suffix(8)}"
            if res.token != RELEASE:
                annotations = metadata.get("annotations")
                known = annotations if isinstance(annotations, Mapping) else {}
                metadata["annotations"] = {**known, objects.AUTONAMED: "true"}
        if not metadata.get("namespace") and (res.token == RELEASE or self._is_namespaced(res)):
            metadata["namespace"] = namespace
        if res.token == RELEASE:
            res.inputs.update(metadata)
        else:
            res.inputs["metadata"] = metadata

    def rules(self, res: Resource) -> Iterable[Problem]:
        metadata, kind = res.inputs.get("metadata"), objects.kind(res.token)
        version = res.token.split(":")[1].removeprefix("core/")
        if isinstance(metadata, Mapping) and not kind.endswith("Patch"):
            yield from validation.check(version, kind, res.inputs)

    def replaces(self, token: str, path: str) -> bool | None:
        if token == RELEASE:
            # helm_release.go, Diff.
            return bridged.replaces({token: ("name", "namespace")}, token, path)
        group, kind = objects.group(token), objects.kind(token).removesuffix("Patch")
        return bridged.replaces({token: replacing(group, kind, self.context.config)}, token, path)

    def forced_changes(self, res: Resource) -> Iterable[Change]:
        if res.token == JOB and self.jobs.is_replaced(res):
            yield Change(("metadata", "annotations", await_rules.REPLACE), UPDATE, replacing=True)

    def deletes_old_first(self, res: Resource) -> bool:
        new, old = res.inputs.get("metadata"), (res.old_inputs or {}).get("metadata")
        if not isinstance(new, Mapping) or not isinstance(old, Mapping) or objects.is_autonamed(new):
            return False
        return all(new.get(key) == old.get(key) for key in ("name", "namespace"))

    def refusals(self, res: Resource) -> Iterable[str]:
        given = res.inputs if res.token == RELEASE else objects.metadata(res)
        namespace, may_create = given.get("namespace"), res.inputs.get("createNamespace")
        if isinstance(namespace, str) and not may_create and not self._exists(namespace):
            yield ("create: failed to create: " if res.token == RELEASE else "") + NO_NAMESPACE.format(namespace)
        if res.old_inputs is None:
            yield from operators.refusals(self.context.world, res.token)
        if res.token == JOB and res.old_inputs is None:
            yield from self.jobs.refusals(res)

    def already_exists(self, res: Resource) -> str:
        row = self.context.world.get(res.token, res.id)
        return objects.already_exists(res, row.stack if row else "")

    def preview_outputs(self, res: Resource) -> dict[str, Any]:
        """Return the planned outputs; the fields that the API server fills in are unknown."""
        if res.token == RELEASE:
            return {"status": UNKNOWN}
        if not isinstance(res.inputs.get("metadata"), Mapping):
            return {}
        before = res.outputs.get("metadata")
        metadata_known = (
            dict(before) if isinstance(before, Mapping) else dict.fromkeys(("uid", "creationTimestamp"), UNKNOWN)
        )
        unknown_counters = dict.fromkeys(("generation", "resourceVersion"), UNKNOWN)
        outputs: dict[str, Any] = {"metadata": {**metadata_known, **objects.metadata(res), **unknown_counters}}
        spec, old = res.inputs.get("spec"), res.outputs.get("spec")
        if objects.kind(res.token) == "Service" and isinstance(spec, Mapping):
            address = (old.get("clusterIP") if isinstance(old, Mapping) else None) or UNKNOWN
            outputs["spec"] = {"clusterIP": address, "clusterIPs": [address], "type": "ClusterIP", **spec}
            outputs["status"] = res.outputs.get("status") or UNKNOWN
        return outputs

    def identity(self, res: Resource) -> str:
        if res.token == RELEASE:
            return f"{res.inputs['namespace']}/{res.inputs['name']}"
        metadata = objects.metadata(res)
        name = metadata.get("name") or f"{metadata.get('generateName', res.name)}{res.suffix(5)}"
        return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)

    def computed(self, res: Resource) -> dict[str, Any]:
        if res.token == RELEASE:
            return {"status": release_status(res)}
        before = res.outputs.get("metadata") if isinstance(res.outputs.get("metadata"), Mapping) else None
        generated = before or {"uid": str(uuid.uuid4()), "creationTimestamp": now()[:19] + "Z", "generation": 0}
        metadata = {
            **objects.metadata(res),
            "name": res.id.rsplit("/", 1)[-1],
            "uid": generated["uid"],
            "creationTimestamp": generated["creationTimestamp"],
            "generation": int(generated["generation"]) + 1,
            # An API server counts its writes. Here, the time gives every write a higher number.
            "resourceVersion": str(time.time_ns() // 1_000_000),
        }
        status = operators.conditions(self.context.world, res.token)
        return {"metadata": metadata, **objects.server_fields(res, metadata), **status}

    def created(self, res: Resource) -> None:
        if res.token == RELEASE:
            self.releases.install(res)
        elif objects.kind(res.token) == "DaemonSet":
            self.workloads.report_pods(Record(res.token, res.id, res.name, "", res.inputs), res.log)
        operators.created(self.context.world, res)

    updated = created

    def await_ready(self, res: Resource) -> dict[str, Any]:
        if res.token == JOB:
            return self.jobs.await_ready(res)
        if await_rules.annotation(res.inputs, await_rules.WAIT_FOR):
            self._check_wait_for(res)
        return {}

    def _check_wait_for(self, res: Resource) -> None:
        """Check the conditions of an object, or of the object that a patch changes."""
        token = res.token.removesuffix("Patch")
        if token == RUNNER_SET and (row := self.context.world.get(token, res.id)):
            self.releases.register(row)
        row = self.context.world.get(token, res.id)
        await_rules.check_condition(res, row.outputs if row else res.outputs)

    def not_ready(self, record: Record) -> NotReady | None:
        return self.jobs.not_ready(record) if record.type == JOB else None

    def overwrites(self, token: str) -> bool:
        # A patch is not an object: a stack may create the same patch again.
        return token == PATCH

    def deleted(self, res: Resource) -> None:
        if res.token == RELEASE:
            self.releases.remove(res)
        elif res.token == JOB:
            self.jobs.forget(res)
        operators.deleted(self.context.world, res)

    def invoke(self, token: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        if token == RENDER and not self.lookups.can_answer(token):
            chart = json.loads(arguments["jsonOpts"]).get("chart")
            self.context.log(NOT_RENDERED.format(chart), "warning")
            return {"result": []}, ()
        return super().invoke(token, arguments)

    def locate(self, token: str, import_id: str) -> Record | None:
        # For `kubectl` and the provider, a bare name is in the namespace `default`.
        return self.context.world.get(token, import_id) or self.context.world.get(token, f"default/{import_id}")

    def _exists(self, namespace: str) -> bool:
        listed = self.lookups.values.get("namespaces", ())
        return namespace in listed or self.context.world.get(NAMESPACE, namespace) is not None

    def _is_namespaced(self, res: Resource) -> bool:
        kind = objects.kind(res.token).removesuffix("Patch")
        if res.token in self.shapes.tokens or objects.group(res.token) == "core":
            return kind not in CLUSTER_WIDE
        if objects.group(res.token) == operators.KUEUE_GROUP:
            return kind in operators.KUEUE_NAMESPACED
        # The scope of a custom resource comes from its definition in a stack. The default is namespaced.
        for row in (*self.context.world.find(DEFINITION), *self.context.world.find(PATCH)):
            spec = row.inputs.get("spec") or {}
            if (spec.get("names") or {}).get("kind") == kind and spec.get("group") == objects.group(res.token):
                return bool(spec.get("scope") == "Namespaced")
        return True
