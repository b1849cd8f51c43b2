"""Map properties of Cloud Run and custom roles to fields of the Google API (types.py describes the form).

The renames are those of terraform-provider-google (google/services/{cloudrunv2,resourcemanager}).
"""

from __future__ import annotations

from pulumi_sandbox.providers.gcp.mapping.target import PROVIDER_ONLY, Target

RUN_POOL = "gcp:cloudrunv2/workerPool:WorkerPool"
CUSTOM_ROLE = "gcp:projects/iAMCustomRole:IAMCustomRole"

TARGETS: dict[str, Target] = {
    RUN_POOL: Target(
        "run.v2",
        "GoogleCloudRunV2WorkerPool",
        "projects.locations.workerPools",
        (),
        PROVIDER_ONLY
        | {
            "project": "",
            "location": "",
            "name": "@workerPoolId",
            "deletionProtection": "",
            "template.containers.commands": "command",
            "template.containers.envs": "env",
            "template.containers.dependsOns": "dependsOn",
            "template.containers.startupProbe.httpGet.httpHeaders": "httpHeaders",
        },
    ),
    CUSTOM_ROLE: Target(
        "iam.v1",
        "CreateRoleRequest",
        "projects.roles",
        ("role",),
        PROVIDER_ONLY | {"project": "", "roleId": "/roleId", "permissions": "includedPermissions"},
    ),
}
