"""Resources that violate no rule. Together, they have every property that a rule reads."""

from __future__ import annotations

import json
from typing import Any

from .support import JOB, LAUNCH_TEMPLATE, RELEASE, SECRET, TEMPLATE, scale_set

ISSUER = "token.actions.githubusercontent.com"
KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
IMAGE = f"ghcr.io/acme/cuda:2.338.0@sha256:{'0' * 64}"
GPU = {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 1}}
METADATA = {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}
TRUST = {
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Federated": f"arn:aws:iam::1:oidc-provider/{ISSUER}"},
            "Condition": {"StringLike": {f"{ISSUER}:sub": ["repo:acme/kernels:*"]}},
        }
    ]
}

GOOD: list[tuple[str, dict[str, Any]]] = [
    (
        TEMPLATE,
        {
            "machineType": "g2-standard-8",
            "networkInterfaces": [{"subnetwork": "s", "accessConfigs": [], "ipv6AccessConfigs": []}],
            "disks": [{"type": "PERSISTENT", "diskEncryptionKey": {"kmsKeySelfLink": KEY}}],
            "metadata": {"gpu-agent-config": json.dumps({"runner": {"version": "2.338.0"}}), "startup-script": "true"},
        },
    ),
    (
        LAUNCH_TEMPLATE,
        {
            "metadataOptions": METADATA,
            "blockDeviceMappings": [{"ebs": {"encrypted": "true", "kmsKeyId": KEY}}],
            "networkInterfaces": [{"associatePublicIpAddress": "false"}],
            "userData": "",
        },
    ),
    (
        "aws:ec2/instance:Instance",
        {
            "associatePublicIpAddress": False,
            "instanceType": "g5.2xlarge",
            "region": "us-east-1",
            "metadataOptions": METADATA,
            "rootBlockDevice": {"encrypted": True, "kmsKeyId": KEY},
        },
    ),
    ("aws:iam/role:Role", {"assumeRolePolicy": TRUST}),
    ("aws:ec2/subnet:Subnet", {"mapPublicIpOnLaunch": False}),
    ("aws:ebs/volume:Volume", {"encrypted": True, "kmsKeyId": KEY}),
    (
        "gcp:compute/instance:Instance",
        {
            "machineType": "g2-standard-8",
            "zone": "us-central1-a",
            "scheduling": {"provisioningModel": "SPOT"},
        },
    ),
    (
        "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider",
        {"oidc": {"issuerUri": f"https://{ISSUER}"}, "attributeCondition": "assertion.repository_owner_id == '1'"},
    ),
    ("gcp:serviceaccount/iAMMember:IAMMember", {"member": "user:a@example.com", "members": ["user:a@example.com"]}),
    (
        "gcp:storage/bucket:Bucket",
        {"encryption": {"defaultKmsKeyName": KEY}},
    ),
    (
        JOB,
        {
            "spec": {
                "template": {
                    "spec": {
                        "initContainers": [{"name": "first", "image": IMAGE}],
                        "containers": [{"name": "a", "image": IMAGE, "resources": GPU}],
                    }
                },
            }
        },
    ),
    (RELEASE, scale_set(image=IMAGE, resources=GPU)),
    (SECRET, {"data": {"a": "Yg=="}, "stringData": {"github_app_id": "1"}}),
    (
        "kubernetes:actions.summerwind.dev/v1alpha1:RunnerDeployment",
        {"spec": {"template": {"spec": {"ephemeral": True}}}},
    ),
]
