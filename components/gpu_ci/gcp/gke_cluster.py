"""The kind of cluster `gke`: its fields in a stack file, their checks, and the arguments that pools get from a cluster.

The wiring of a pool is the arguments that the program adds to the fields of the stack file. Pulumi's Google package is
loaded when a cluster is looked up, so the check of a stack file does not need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pulumi
from pydantic import AfterValidator, Field

from ..args import StrictBool
from ..errors import Problem
from ..kubernetes.cluster import Cluster, Connection, PoolEntry, kubeconfig_with_program, wrong_gpu_resource
from .gke_nodes import rules
from .resource_names import Project

if TYPE_CHECKING:
    import pulumi_gcp as gcp

_PLUGIN = "gke-gcloud-auth-plugin"
_INSTALL = f"install {_PLUGIN}: docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl"
_DATAPLANE_V2 = "ADVANCED_DATAPATH"
_ENFORCES = "PROJECT_SINGLETON_POLICY_ENFORCE"
# With this flag, the plugin uses the credentials of Pulumi's Google provider, and needs no gcloud
# (kubernetes/cloud-provider-gcp@0a5be104:cmd/gke-gcloud-auth-plugin/cred.go).
_AS_PULUMI = "--use_application_default_credentials"


class GkeCluster(Cluster):
    """An existing Standard cluster of GKE, and the settings that its pools share."""

    CLUSTER_KIND: ClassVar[str] = "gke"
    EXAMPLE: ClassVar[dict[str, Any]] = {"kind": "gke", "location": "us-central1"}
    BUCKETS: ClassVar[str] = "gs"
    # docs.cloud.google.com/kubernetes-engine/docs/how-to/network-policy, "Network policy and Workload Identity
    # Federation for GKE": the first for Calico, the second for Dataplane V2.
    CREDENTIALS: ClassVar[Mapping[str, int]] = {"169.254.169.252/32": 988, "169.254.169.254/32": 80}
    # Cloud DNS for GKE answers at the address of the metadata server (docs.cloud.google.com/kubernetes-engine/docs/
    # how-to/cloud-dns). The metadata server itself has other ports, which stay closed.
    DNS_ADDRESSES: ClassVar[Sequence[str]] = ("169.254.169.254",)

    kind: Literal["gke"] = Field(description="a cluster of Google Kubernetes Engine")
    location: Annotated[str, AfterValidator(rules.location)] = Field(
        description="the region of the cluster, or its zone if it is a zonal cluster, such as us-central1"
    )
    project: Project | None = Field(
        default=None,
        examples=["acme-clusters"],
        description="the id of the cluster's project; by default gcp:project",
    )
    binary_authorization: StrictBool = Field(
        default=False,
        description="true if the cluster must enforce the project's policy of Binary Authorization; the deployment "
        "fails if it does not",
    )

    @classmethod
    def known_wiring(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the location, if it is valid."""
        location = described.get("location")
        return {"location": location} if isinstance(location, str) and rules.is_location(location) else {}

    @classmethod
    def problems_with_pools(
        cls,
        path: str,  # noqa: ARG003 - EKS uses it
        described: Mapping[str, Any],  # noqa: ARG003
        pools: Sequence[PoolEntry],
    ) -> list[Problem]:
        """Report resource names of GPUs that no node offers. Pods would stay pending, without an error."""
        return [found for pool in pools for found in wrong_gpu_resource(pool, "GKE")]

    @classmethod
    def marks(cls, described: Mapping[str, Any], project: str) -> set[str]:
        project = described.get("project") or project
        return {f"{project}/{described.get('location')}"} if project else set()

    def connect(self, name: str, path: str, file: str) -> GkeConnection:
        return GkeConnection(self, name, path, file)


class GkeConnection(Connection):
    """A GKE cluster that was looked up."""

    providers: Sequence[pulumi.ProviderResource] = ()

    def __init__(self, described: GkeCluster, name: str, path: str, file: str) -> None:
        import pulumi_gcp as gcp

        self._described, self._name, self._path, self._file = described, name, path, file
        self._project = described.project or gcp.config.project
        self._found = gcp.container.get_cluster_output(
            name=name, location=described.location, project=self._project
        ).apply(self._checked)
        self.kubeconfig = self._found.apply(self._kubeconfig)
        self.cached_dns = self._found.apply(_cached_dns)

    def wiring(self, pools: Sequence[tuple[str, Any]]) -> dict[str, Any]:  # noqa: ARG002 - EKS uses it
        found = self._found
        return {
            "project": self._project,
            "location": self._described.location,
            "control_plane_version": found.master_version,
            "autopilot": found.enable_autopilot,
            "workload_identity": found.workload_identity_configs.apply(_has_workload_pool),
        }

    def grant_bucket(self, name: str, url: str, account: tuple[str, str]) -> list[pulumi.Resource]:
        """Grant the account the bucket itself, without a service account of Google.

        docs.cloud.google.com/kubernetes-engine/docs/how-to/workload-identity, "Configure authorization and principals".
        """
        import pulumi_gcp as gcp

        number = gcp.organizations.get_project_output(project_id=self._project).number
        pool = self._found.apply(lambda found: self._workload_pool(found, url))
        pools = "principal://iam.googleapis.com/projects/{}/locations/global/workloadIdentityPools/{}"
        subject = "/subject/ns/{}/sa/{}".format(*account)
        return [
            gcp.storage.BucketIAMMember(
                f"{name}-bucket",
                bucket=url.partition("://")[2].partition("/")[0],
                role="roles/storage.objectUser",
                member=pulumi.Output.format(f"{pools}{subject}", number, pool),
            )
        ]

    def _workload_pool(self, found: gcp.container.GetClusterResult, url: str) -> str:
        """Return the workload pool of the cluster. Fail if it has none."""
        for each in found.workload_identity_configs or ():
            if each.workload_pool:
                return str(each.workload_pool)
        problem = Problem(
            self._path,
            f"the cluster {self._name} has no Workload Identity Federation for GKE, so no pod can get access to {url}",
            expected="a cluster with a workload pool",
            hint=f"gcloud container clusters update {self._name} --location {self._described.location} "
            f"--workload-pool={self._project}.svc.id.goog, or storage: {{kind: claim, …}}",
            rule="no-workload-identity",
        )
        raise pulumi.RunError(problem.render(self._file))

    def _checked(self, found: gcp.container.GetClusterResult) -> gcp.container.GetClusterResult:
        """Return the cluster. Fail if it does not enforce what its entry says."""
        if self._described.network_policies and not (found.datapath_provider == _DATAPLANE_V2 or _has_calico(found)):
            problem = Problem(
                f"{self._path}.networkPolicies",
                f"the cluster {self._name} enforces no network policies, so jobs could connect to private addresses",
                "true",
                "a cluster with Dataplane V2 or with network policy enforcement",
                "enable one of the two, or networkPolicies: false",
                rule="no-network-policies",
            )
            raise pulumi.RunError(problem.render(self._file))
        # A cluster may also enforce policies of its own, with a mode whose name ends with this one.
        modes = [each.evaluation_mode for each in found.binary_authorizations or ()]
        if self._described.binary_authorization and not any(mode.endswith(_ENFORCES) for mode in modes):
            problem = Problem(
                f"{self._path}.binaryAuthorization",
                f"the cluster {self._name} starts images that the project's policy of Binary Authorization rejects",
                "true",
                f"a cluster with the evaluation mode {_ENFORCES}",
                f"gcloud container clusters update {self._name} --location {self._described.location} "
                f"--binauthz-evaluation-mode={_ENFORCES}",
                rule="no-binary-authorization",
            )
            raise pulumi.RunError(problem.render(self._file))
        if not self._described.network_policies and not _has_workload_pool(found.workload_identity_configs):
            # docs.cloud.google.com/kubernetes-engine/docs/how-to/protecting-cluster-metadata.
            pulumi.log.warn(
                f"{self._path}.networkPolicies: jobs can get the token of the nodes' service account from the metadata "
                f"server, because the cluster {self._name} has no Workload Identity Federation for GKE; hint: enable "
                "it, or use a cluster that enforces network policies"
            )
        return found

    def _kubeconfig(self, found: gcp.container.GetClusterResult) -> str:
        """Return the kubeconfig, with the names that gcloud gives. A program of Google returns the credentials."""
        name = f"gke_{self._project}_{self._described.location}_{self._name}"
        program = {"command": _PLUGIN, "args": [_AS_PULUMI], "installHint": _INSTALL, "provideClusterInfo": True}
        authority = found.master_auths[0].cluster_ca_certificate
        return kubeconfig_with_program(name, f"https://{found.endpoint}", authority, program)


def _has_calico(found: gcp.container.GetClusterResult) -> bool:
    return any(each.enabled for each in found.network_policies or ())


def _cached_dns(found: gcp.container.GetClusterResult) -> list[str]:
    """Return the address of kube-dns, if NodeLocal DNSCache answers there and Calico enforces network policies.

    The cache runs in the host network, so only its address can be allowed (projectcalico/calico#3795,
    kubernetes/kubernetes#70555). With Dataplane V2, queries reach a pod of kube-system. GKE gives kube-dns the tenth
    address of the range of Services, such as 34.118.224.10 (terraform-google-modules/
    terraform-google-kubernetes-engine#1949).
    """
    has_cache = any(cache.enabled for addons in found.addons_configs or () for cache in addons.dns_cache_configs or ())
    if found.datapath_provider == _DATAPLANE_V2 or not (has_cache and _has_calico(found)):
        return []
    return [str(ip_network(found.services_ipv4_cidr)[10])]


def _has_workload_pool(configs: Sequence[gcp.container.outputs.GetClusterWorkloadIdentityConfigResult] | None) -> bool:
    return any(each.workload_pool for each in configs or ())
