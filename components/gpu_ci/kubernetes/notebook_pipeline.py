"""The component NotebookPipeline: runs the notebooks of a push on GPU nodes, by Tekton, and publishes a report.

The tasks and the graph of a run are in notebooks/. This module creates what is around them: the namespace, the accounts
and their rights, the Secrets, the way from GitHub to the listener, and network policies.

Sources: tektoncd/triggers v0.37.0, pkg/reconciler/eventlistener/resources (the labels, the port and the Service of a
listener) and config/interceptors; tektoncd/pipeline v1.15.0, pkg/reconciler/pipelinerun (the label of pods).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pulumi
import pulumi_kubernetes as kubernetes

from .. import naming
from ..args import Args
from ..component import Component
from .gpu_namespace import GpuNamespace, GpuNamespaceArgs, all_but_credentials
from .notebooks import objects
from .notebooks.args import Claim, Gateway, Ingress, NotebookPipelineArgs
from .tekton import PIPELINES_NAMESPACE, WAIT_FOR_READY

SINK_PORT = 8080
_INTERCEPTORS_PORT = 8443
_API_PORTS = (443, 6443)
_READ = ["get", "list", "watch"]
_TRIGGERS = ["eventlisteners", "interceptors", "triggerbindings", "triggers", "triggertemplates"]
_RIGHTS: Any = [
    {"api_groups": ["triggers.tekton.dev"], "resources": _TRIGGERS, "verbs": _READ},
    {"api_groups": [""], "resources": ["configmaps"], "verbs": _READ},
    {"api_groups": ["tekton.dev"], "resources": ["pipelineruns"], "verbs": ["create"]},
]
"""The rights of the listener in its namespace. It reads no Secret: the interceptor of GitHub compares the signature."""
_CLUSTER_RIGHTS: Any = [
    {
        "api_groups": ["triggers.tekton.dev"],
        "resources": ["clusterinterceptors", "clustertriggerbindings"],
        "verbs": _READ,
    }
]


class NotebookPipeline(Component):
    """Runs the notebooks of each push on GPU nodes, tests their results, and publishes one report.

    Creates: a GpuNamespace, two service accounts, a role and a cluster role for the listener, Secrets, network
    policies, and the objects of Tekton: tasks, a pipeline, a template of runs, and a listener for pushes. With access,
    an Ingress or an HTTPRoute. With storage of kind claim, a volume claim.
    Costs: the volume of a claim, and the capacity for the listener's pod and for tasks without GPUs. A notebook needs a
    node of the pool, which starts on demand.
    Does not: install Tekton, create the pool, the bucket or the right to use it, the certificate and the DNS entry of
    the address, or the webhook on GitHub. A stack with gpu-ci:notebooks creates the right and the webhook. Runs share
    the folder of the storage: code of a repository can read and change the results of all of them.
    Replaces on change of: everything for namespace, with all runs, and with the files of a claim. The claim for
    storageClass, with its files. Everything else is updated in place, and tasks of a run that start
    later use the new programs.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:NotebookPipeline"
    ARGS: ClassVar[type[Args]] = NotebookPipelineArgs
    ENTRY_NAME: ClassVar[str] = "analysis"
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "image": f"ghcr.io/acme/notebook:1@sha256:{'a1' * 32}",
        "repositories": ["kernels"],
        "storage": {"kind": "bucket", "url": "gs://acme-notebooks"},
        "access": {"kind": "ingress", "host": "notebooks.acme.dev", "ingressClassName": "nginx"},
    }

    namespace: pulumi.Output[str]
    """Namespace of the runs."""
    webhook_url: pulumi.Output[str]
    """Address for GitHub's webhook; empty without access."""
    listener_service: pulumi.Output[str]
    """Service of the listener, with its namespace and port. The output waits until the listener is ready."""
    storage_url: pulumi.Output[str]
    """The storage, in which each run has the folder OWNER/REPOSITORY/RUN."""

    def __init__(self, name: str, args: NotebookPipelineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        space = GpuNamespace(
            naming.of_part(name, "pods"),
            GpuNamespaceArgs(
                namespace=args.namespace or name,
                gpus=args.max_gpus or args.node_gpus,
                gpu_resource=args.gpu_resource,
                private_ranges=args.private_ranges,
                dns_addresses=args.dns_addresses,
                cached_dns=args.cached_dns,
                image_pull_secrets=args.logins,
            ),
            self.child(),
        )
        self.namespace = space.namespace
        for role, spec in _policies(name, args).items():
            kubernetes.networking.v1.NetworkPolicy(
                f"{name}-{role}", metadata=self._metadata(role), spec=spec, opts=self.child()
            )
        needed = [*self._accounts(name), *self._secrets(name, args), *self._claim(name, args)]
        listener = self._objects(name, args, [space, *needed])
        self._way_in(name, args)
        service, host = f"el-{name}", args.access.host if args.access else ""
        self.webhook_url = pulumi.Output.from_input(f"https://{host}/" if host else "")
        # In a preview, the URN of a new object is known, unlike its ID.
        self.listener_service = pulumi.Output.all(self.namespace, listener.urn).apply(
            lambda found: f"{service}.{found[0]}.svc:{SINK_PORT}"
        )
        self.storage_url = pulumi.Output.from_input(args.store)
        self.register()

    def _metadata(self, name: str, **more: Any) -> Any:
        return {"name": name, "namespace": self.namespace, **more}

    def _accounts(self, name: str) -> list[pulumi.Resource]:
        """Create the accounts: `run` has no right and no token, and `listener` the rights to start a run."""
        rbac = kubernetes.rbac.v1
        listener, run = f"{name}-{objects.LISTENER}", f"{name}-{objects.RUN}"
        of_run = kubernetes.core.v1.ServiceAccount(
            run, metadata=self._metadata(run), automount_service_account_token=False, opts=self.child()
        )
        account = kubernetes.core.v1.ServiceAccount(listener, metadata=self._metadata(listener), opts=self.child())
        subjects: Any = [{"kind": "ServiceAccount", "name": listener, "namespace": self.namespace}]
        role = rbac.Role(f"{name}-role", metadata=self._metadata(listener), rules=_RIGHTS, opts=self.child())
        # Two clusters of a stack may have a pipeline of this name, but a cluster has one namespace of this name.
        whole: Any = self.namespace.apply(lambda namespace: {"name": f"{namespace}-{listener}"})
        cluster_role = rbac.ClusterRole(
            f"{name}-cluster-role", metadata=whole, rules=_CLUSTER_RIGHTS, opts=self.child()
        )
        group = "rbac.authorization.k8s.io"
        bindings = [
            rbac.RoleBinding(
                f"{name}-binding",
                metadata=self._metadata(listener),
                role_ref={"api_group": group, "kind": "Role", "name": role.metadata.name},
                subjects=subjects,
                opts=self.child(),
            ),
            rbac.ClusterRoleBinding(
                f"{name}-cluster-binding",
                metadata=whole,
                role_ref={"api_group": group, "kind": "ClusterRole", "name": cluster_role.metadata.name},
                subjects=subjects,
                opts=self.child(),
            ),
        ]
        return [of_run, account, *bindings]

    def _secrets(self, name: str, args: NotebookPipelineArgs) -> list[pulumi.Resource]:
        """Create the Secrets. Only the interceptor, `prepare`, `fetch-tests` and `publish` read them."""
        data: dict[str, dict[str, pulumi.Input[str]]] = {"webhook": {"secret": args.webhook_secret}}
        if args.github:
            fields = (args.github.id, args.github.installation_id, args.github.private_key)
            data["github"] = dict(zip(objects.GITHUB_KEYS.values(), fields, strict=True))
        if args.notify:
            data["notify"] = dict.fromkeys(objects.NOTIFY_KEYS.values(), args.notify.url)
        return [
            kubernetes.core.v1.Secret(
                f"{name}-{role}",
                metadata=self._metadata(objects.secret_name(name, role)),
                string_data={key: pulumi.Output.secret(value) for key, value in values.items()},
                opts=self.child(),
            )
            for role, values in data.items()
        ]

    def _claim(self, name: str, args: NotebookPipelineArgs) -> list[pulumi.Resource]:
        if not isinstance(args.storage, Claim):
            return []
        return [
            kubernetes.core.v1.PersistentVolumeClaim(
                f"{name}-storage",
                # A class may create the volume only for the first pod, which is later.
                metadata=self._metadata(f"{name}-storage", annotations={"pulumi.com/skipAwait": "true"}),
                spec={
                    "access_modes": ["ReadWriteMany"],
                    "storage_class_name": args.storage.storage_class,
                    "resources": {"requests": {"storage": f"{args.storage.size_gib}Gi"}},
                },
                opts=self.child(),
            )
        ]

    def _objects(
        self, name: str, args: NotebookPipelineArgs, needed: Sequence[pulumi.Resource]
    ) -> pulumi.CustomResource:
        """Create the objects of Tekton, and return the last one, the listener.

        Tekton accepts a pipeline without its tasks. So each object waits for those of the kinds before it.
        """
        made: list[pulumi.CustomResource] = []
        # The namespace in the objects is that of the text, not of the output, which waits for the namespace.
        for each in objects.objects(name, args.namespace or name, args):
            kind, role = each["kind"], each["metadata"]["name"].removeprefix(name).strip("-")
            waits = WAIT_FOR_READY if kind == "EventListener" else {}
            metadata = self._metadata(each["metadata"]["name"], **({"annotations": waits} if waits else {}))
            before = [one for one in made if kind != "Task" or one is made[0]]
            options = self.child(depends_on=[*needed, *before])
            if kind == "ConfigMap":
                created: pulumi.CustomResource = kubernetes.core.v1.ConfigMap(
                    f"{name}-{role}", metadata=metadata, data=each["data"], opts=options
                )
            else:
                created = kubernetes.apiextensions.CustomResource(
                    f"{name}-{role or kind.lower()}",
                    api_version=each["apiVersion"],
                    kind=kind,
                    metadata=metadata,
                    spec=each["spec"],
                    opts=options,
                )
            made.append(created)
        return made[-1]

    def _way_in(self, name: str, args: NotebookPipelineArgs) -> None:
        """Create the Ingress or the HTTPRoute to the Service that the listener's controller creates."""
        service: Any = {"name": f"el-{name}", "port": SINK_PORT}
        if isinstance(args.access, Ingress):
            backend: Any = {"service": {"name": service["name"], "port": {"number": service["port"]}}}
            tls: Any = [{"hosts": [args.access.host], "secret_name": args.access.tls_secret}]
            kubernetes.networking.v1.Ingress(
                f"{name}-ingress",
                # Pulumi would wait until the Ingress has an address, and a user may have to act before.
                metadata=self._metadata(name, annotations={"pulumi.com/skipAwait": "true"}),
                spec={
                    "ingress_class_name": args.access.ingress_class_name,
                    "rules": [
                        {
                            "host": args.access.host,
                            "http": {"paths": [{"path": "/", "path_type": "Prefix", "backend": backend}]},
                        }
                    ],
                    **({"tls": tls} if args.access.tls_secret else {}),
                },
                opts=self.child(),
            )
        elif isinstance(args.access, Gateway):
            parent = {"name": args.access.gateway, "namespace": args.access.gateway_namespace}
            kubernetes.apiextensions.CustomResource(
                f"{name}-route",
                api_version="gateway.networking.k8s.io/v1",
                kind="HTTPRoute",
                metadata=self._metadata(name),
                spec={
                    "parentRefs": [parent],
                    "hostnames": [args.access.host],
                    "rules": [{"backendRefs": [service]}],
                },
                opts=self.child(),
            )


def _policies(name: str, args: NotebookPipelineArgs) -> Mapping[str, Any]:
    """Return the network policies by role. Those of the GpuNamespace close the rest."""
    listener = {"matchLabels": {"app.kubernetes.io/managed-by": "EventListener", "eventlistener": name}}
    tekton = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": PIPELINES_NAMESPACE}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/component": "interceptors"}},
    }

    def to(peers: Sequence[Mapping[str, Any]], *ports: int) -> dict[str, Any]:
        return {"to": list(peers), "ports": [{"protocol": "TCP", "port": port} for port in ports]}

    # A policy cannot name the API server, whose addresses are those of the cloud's control plane.
    from_listener = [to([tekton], _INTERCEPTORS_PORT), to(all_but_credentials(), *_API_PORTS)]
    found = {"listener-egress": {"podSelector": listener, "policyTypes": ["Egress"], "egress": from_listener}}
    if args.access:
        ingress = [{"ports": [{"protocol": "TCP", "port": SINK_PORT}]}]
        found["pushes"] = {"podSelector": listener, "policyTypes": ["Ingress"], "ingress": ingress}
    if args.credentials and not isinstance(args.storage, Claim):
        runs = {"matchLabels": {"tekton.dev/pipeline": name}}
        servers = [to([{"ipBlock": {"cidr": cidr}}], port) for cidr, port in args.credentials.items()]
        found["credentials"] = {"podSelector": runs, "policyTypes": ["Egress"], "egress": servers}
    return found
