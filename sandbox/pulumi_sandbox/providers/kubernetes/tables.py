"""List cluster-wide kinds and the fields whose change replaces an object, with the source of each table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
IDENTITY = ("metadata.name", "metadata.namespace")
_CONTAINER = (
    "args", "command", "env", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "ports", "readinessProbe",
    "resources", "securityContext", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty",
    "volumeDevices", "volumeMounts", "workingDir",
)  # fmt: skip
_POD = (
    "affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases",
    "hostIPC", "hostNetwork", "hostPID", "hostname", "imagePullSecrets", "nodeName", "nodeSelector", "overhead",
    "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "restartPolicy", "runtimeClassName",
    "schedulerName", "securityContext", "serviceAccount", "serviceAccountName", "shareProcessNamespace", "subdomain",
    "terminationGracePeriodSeconds", "volumes",
)  # fmt: skip
REPLACES: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "DaemonSet"): ("spec.selector",),
    ("apps", "Deployment"): ("spec.selector",),
    ("apps", "StatefulSet"): (
        "spec.podManagementPolicy", "spec.revisionHistoryLimit", "spec.selector", "spec.serviceName",
        "spec.volumeClaimTemplates",
    ),
    ("batch", "Job"): ("spec.completions", "spec.parallelism", "spec.selector", "spec.template"),
    ("core", "PersistentVolumeClaim"): (
        "spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName",
    ),
    ("core", "Pod"): (
        *(f"spec.{one}" for one in _POD),
        *(f"spec.{kind}[*].{one}" for kind in ("containers", "initContainers") for one in _CONTAINER),
    ),
    ("core", "ResourceQuota"): ("spec.scopes",),
    ("core", "Secret"): ("type",),
    ("core", "Service"): ("spec.clusterIP",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner"),
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
