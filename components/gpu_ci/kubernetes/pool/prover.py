"""The prover of a pool: the program that checks each node before runners may use it, and its rights.

It runs next to the controller of scale sets, on a node without GPUs. So no token that may change nodes is on a node
with jobs, and the network policies of the runners' namespace stay closed to the API server.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pulumi
import pulumi_kubernetes as kubernetes

from ...component import Component
from ...payload import smoke_archive
from .. import gpu_nodes
from ..name_types import CONTAINER_SECURITY, POD_SECURITY
from ..smoke import pod
from ..smoke.args import SmokeJobArgs

if TYPE_CHECKING:
    from .args import ProveNodes

# The labels of the prover's pod, and of the Jobs with the checks. The label gpu-ci-pool would match the anti-affinity
# of the smoke check of several nodes.
_PROVER_LABEL, _PROOF_LABEL = "gpu-ci-prover", "gpu-ci-proof"
_SETTINGS, _MOUNT = "settings.json", "/prover"
# The user "nobody".
_UID = 65534
_RBAC = "rbac.authorization.k8s.io"
# The prover creates pods in the namespace of the runners. The controller of scale sets may do the same there.
_RIGHTS: Any = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "create", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]
_NODE_RIGHTS: Any = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "patch"]}]


def create_prover(
    owner: Component,
    name: str,
    settings: ProveNodes,
    check: SmokeJobArgs,
    controller_namespace: pulumi.Input[str],
    after: pulumi.Resource,
) -> None:
    """Create the prover of the pool `name`.

    Args:
        owner: The pool, which is the parent of the resources.
        name: The name of the pool.
        settings: The settings of the pool.
        check: The arguments of the check of one node.
        controller_namespace: The namespace of the controller of scale sets.
        after: The check of the pool. If it fails, the prover keeps the image that has passed.
    """
    options = owner.child(depends_on=[after])
    here, prover = pulumi.Output.from_input(controller_namespace), f"{name}-prover"
    # Pulumi generates the names of both ConfigMaps. So other settings start the prover again, and a Job that waits
    # keeps its program until the prover has replaced the Job.
    archive = kubernetes.core.v1.ConfigMap(
        f"{name}-prover-check",
        metadata={"namespace": check.namespace},
        binary_data={pod.ARCHIVE: smoke_archive()},
        immutable=True,
        opts=options,
    )
    program = kubernetes.core.v1.ConfigMap(
        f"{name}-prover-settings",
        metadata={"namespace": here},
        binary_data={pod.ARCHIVE: smoke_archive()},
        data={_SETTINGS: _settings(name, settings, check, archive.metadata.name)},
        immutable=True,
        opts=options,
    )
    # Two provers of one pool of a cluster would work against each other, so these names are fixed.
    metadata: Any = {"name": prover, "namespace": here}
    account = kubernetes.core.v1.ServiceAccount(f"{name}-prover-account", metadata=metadata, opts=options)
    rights = _rights(owner, name, check.namespace, here, options)
    labelled: Any = {**metadata, "labels": {_PROVER_LABEL: name}}
    kubernetes.apps.v1.Deployment(
        prover,
        metadata=labelled,
        spec=cast("Any", _spec(name, settings.image, program.metadata.name)),
        opts=owner.child(depends_on=[account, *rights]),
    )


def _rights(
    owner: Component,
    name: str,
    namespace: pulumi.Input[str],
    controller_namespace: pulumi.Output[str],
    options: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Create the rights of the prover. The right to change nodes comes after the policy that limits it."""
    prover, rbac = f"{name}-prover", kubernetes.rbac.v1
    inside: Any = {"name": prover, "namespace": namespace}
    whole: Any = {"name": f"gpu-ci-{prover}"}
    subjects: Any = [{"kind": "ServiceAccount", "name": prover, "namespace": controller_namespace}]
    limits = kubernetes.admissionregistration.v1
    policy = limits.ValidatingAdmissionPolicy(
        f"{prover}-policy",
        metadata=whole,
        spec=controller_namespace.apply(lambda each: node_policy(name, f"system:serviceaccount:{each}:{prover}")),
        opts=options,
    )
    bound = limits.ValidatingAdmissionPolicyBinding(
        f"{prover}-policy-binding",
        metadata=whole,
        spec={"policy_name": whole["name"], "validation_actions": ["Deny"]},
        opts=owner.child(depends_on=[policy]),
    )
    rbac.Role(f"{prover}-role", metadata=inside, rules=_RIGHTS, opts=options)
    rbac.ClusterRole(f"{prover}-node-role", metadata=whole, rules=_NODE_RIGHTS, opts=options)
    return [
        rbac.RoleBinding(
            f"{prover}-binding",
            metadata=inside,
            role_ref={"api_group": _RBAC, "kind": "Role", "name": prover},
            subjects=subjects,
            opts=options,
        ),
        rbac.ClusterRoleBinding(
            f"{prover}-node-binding",
            metadata=whole,
            role_ref={"api_group": _RBAC, "kind": "ClusterRole", "name": whole["name"]},
            subjects=subjects,
            opts=owner.child(depends_on=[bound]),
        ),
    ]


def node_policy(pool: str, user: str) -> Any:
    """Return the admission policy that limits which changes of nodes the prover may make.

    A role cannot select nodes by a label, or fields. The prover may change its two taints, the field `unschedulable`
    and its own annotations, on nodes of its pool.
    """
    own = json.dumps([gpu_nodes.UNPROVEN_KEY, gpu_nodes.FAILED_KEY])

    def rest(of: str) -> dict[str, str]:
        """Return the expressions for the other taints of a node, and for its annotations."""
        return {
            "taints": f"has({of}.spec.taints) ? {of}.spec.taints.filter(each, !(each.key in {own})) : []",
            "annotations": f"has({of}.metadata.annotations) ? {of}.metadata.annotations : {{}}",
        }

    variables = [
        {"name": f"{prefix}{name.capitalize()}", "expression": expression}
        for prefix, of in (("old", "oldObject"), ("new", "object"))
        for name, expression in rest(of).items()
    ]
    same = "variables.{0}Annotations.all(key, key.startsWith('gpu-ci-') || (key in variables.{1}Annotations && "
    same += "variables.{1}Annotations[key] == variables.{0}Annotations[key]))"
    rules = {
        f"the node is not in the pool {pool}": f"oldObject.metadata.labels[?'{gpu_nodes.POOL_LABEL}'] == "
        f"optional.of({json.dumps(pool)})",
        "labels must stay": "object.metadata.labels == oldObject.metadata.labels",
        "other taints must stay": "variables.newTaints == variables.oldTaints",
        "other annotations must stay": f"{same.format('old', 'new')} && {same.format('new', 'old')}",
    }
    return {
        "failure_policy": "Fail",
        "match_constraints": {
            "resource_rules": [
                {"api_groups": [""], "api_versions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
            ]
        },
        "match_conditions": [{"name": "prover", "expression": f"request.userInfo.username == {json.dumps(user)}"}],
        "variables": variables,
        "validations": [{"expression": rule, "message": message} for message, rule in rules.items()],
    }


def _settings(name: str, settings: ProveNodes, check: SmokeJobArgs, archive: pulumi.Output[str]) -> pulumi.Output[str]:
    """Return the settings file of the program (smoke/gpu_smoke/nodes/decision.py, Settings)."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"labels": {_PROOF_LABEL: name}},
        "spec": {
            # The prover repeats a check without a verdict. The Job has no deadline: its pod waits until all GPUs are
            # free.
            "backoffLimit": 0,
            "template": {
                "metadata": {
                    "labels": {_PROOF_LABEL: name},
                    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
                },
                "spec": pod.pod(check, archive, None),
            },
        },
    }
    found = {
        "pool": name,
        "namespace": check.namespace,
        "gpus": check.gpus,
        "unproven": gpu_nodes.UNPROVEN_KEY,
        "failed": gpu_nodes.FAILED_KEY,
        "deadline_sec": check.deadline_sec,
        "repeat_after_hours": settings.repeat_after_hours,
        "job": job,
    }
    return pulumi.Output.json_dumps(found, sort_keys=True)


def _spec(name: str, image: str, program: pulumi.Output[str]) -> dict[str, Any]:
    labels, memory = {_PROVER_LABEL: name}, {"memory": "256Mi"}
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": f"{name}-prover",
                "enableServiceLinks": False,
                "affinity": gpu_nodes.off_gpu_nodes(),
                "securityContext": {"runAsUser": _UID, "runAsGroup": _UID, **POD_SECURITY},
                # Python as the first process ignores the signal to end, and each request can be repeated.
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "prover",
                        "image": image,
                        "command": [
                            "python3", f"{_MOUNT}/{pod.ARCHIVE}", "prove-nodes", "--settings", f"{_MOUNT}/{_SETTINGS}"
                        ],
                        "resources": {"requests": {"cpu": "10m", **memory}, "limits": memory},
                        "securityContext": {"readOnlyRootFilesystem": True, **CONTAINER_SECURITY},
                        "volumeMounts": [{"name": "program", "mountPath": _MOUNT, "readOnly": True}],
                    }
                ],
                "volumes": [{"name": "program", "configMap": {"name": program}}],
            },
        },
    }  # fmt: skip
