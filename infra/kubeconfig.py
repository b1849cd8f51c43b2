"""How a cluster of EKS is reached."""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

# Which of kubectl's plugins speaks for whoever runs this (docs.aws.amazon.com/eks/latest/userguide/
# create-kubeconfig.html).
_CREDENTIALS = "client.authentication.k8s.io/v1beta1"


def of(name: str, region: str, found: pulumi.Output[aws.eks.GetClusterResult]) -> pulumi.Output[str]:
    """How the cluster is reached, as whoever runs this: the aws command is asked for credentials, none are in it."""

    def written(cluster: aws.eks.GetClusterResult) -> str:
        authority = cluster.certificate_authorities[0].data
        words = ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"]
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": name,
                        "cluster": {"server": cluster.endpoint, "certificate-authority-data": authority},
                    }
                ],
                "users": [
                    {"name": name, "user": {"exec": {"apiVersion": _CREDENTIALS, "command": "aws", "args": words}}}
                ],
                "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                "current-context": name,
            }
        )

    return found.apply(written)
