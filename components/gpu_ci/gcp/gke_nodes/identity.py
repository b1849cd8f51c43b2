"""Creates the service account of nodes, with the roles that GKE needs. Pods need their own identities."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from .. import identities
from .args import GkeGpuNodePoolArgs


def roles(args: GkeGpuNodePoolArgs) -> dict[str, str]:
    """Return the roles of the service account on the project, by purpose.

    The first is the minimum for logs, metrics and registration
    (docs.cloud.google.com/kubernetes-engine/security/configure-node-service-accounts). Image streaming needs the second
    on the project of the images (docs.cloud.google.com/kubernetes-engine/docs/how-to/image-streaming, "Requirements").
    Neither role reads images.
    """
    streaming = {"image-streaming": "roles/serviceusage.serviceUsageConsumer"} if args.image_streaming else {}
    return {"node": "roles/container.defaultNodeServiceAccount", **streaming}


def service_account(
    name: str, args: GkeGpuNodePoolArgs, opts: pulumi.ResourceOptions
) -> tuple[gcp.serviceaccount.Account, list[pulumi.Resource]]:
    """Create the service account of the nodes of `name` and its grants, which nodes need to join the cluster."""
    account = identities.service_account(
        f"{name}-account", "gke", name, f"nodes of the GPU node pool {name}", args.project, opts
    )
    grants: list[pulumi.Resource] = [
        gcp.projects.IAMMember(
            f"{name}-{purpose}-role",
            member=pulumi.Output.concat("serviceAccount:", account.email),
            project=args.project,
            role=role,
            opts=opts,
        )
        for purpose, role in roles(args).items()
    ]
    grants += identities.image_readers(name, args.image_repositories, account, opts)
    return account, grants
