"""Map properties of Cloud Build and Artifact Registry to fields of the Google API (types.py describes the form).

The renames are those of terraform-provider-google (commit e03b7622, google/services/{cloudbuild,artifactregistry}).
"""

from __future__ import annotations

from pulumi_sandbox.providers.gcp.mapping.target import MEMBER, PROVIDER_ONLY, Target

WORKER_POOL = "gcp:cloudbuild/workerPool:WorkerPool"
TRIGGER = "gcp:cloudbuild/trigger:Trigger"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
REPOSITORY_MEMBER = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"

# Properties that are a part of the URL, and no fields of the resource.
_IN_URL = {"project": "", "location": ""}

_BUILD = {
    "build.artifacts.objects.timings": "timing",
    "build.availableSecrets.secretManagers": "secretManager",
    "build.options.envs": "env",
    "build.options.secretEnvs": "secretEnv",
    "build.options.sourceProvenanceHashes": "sourceProvenanceHash",
    "build.steps.envs": "env",
    "build.steps.secretEnvs": "secretEnv",
    "build.steps.timing": "",  # an object in the API, and one that only the service sets
    "build.steps.waitFors": "waitFor",
}

TARGETS: dict[str, Target] = {
    WORKER_POOL: Target(
        "cloudbuild.v1",
        "WorkerPool",
        "projects.locations.workerPools",
        (),
        PROVIDER_ONLY
        | _IN_URL
        | {
            "name": "@workerPoolId",
            "networkConfig": "privatePoolV1Config.networkConfig",
            "privateServiceConnect": "privatePoolV1Config.privateServiceConnect",
            "workerConfig": "privatePoolV1Config.workerConfig",
            # It becomes networkConfig.egressOption, which is an enum.
            "workerConfig.noExternalIp": "",
        },
    ),
    TRIGGER: Target(
        "cloudbuild.v1", "BuildTrigger", "projects.locations.triggers", (), PROVIDER_ONLY | _IN_URL | _BUILD
    ),
    REPOSITORY: Target(
        "artifactregistry.v1",
        "Repository",
        "projects.locations.repositories",
        (),
        PROVIDER_ONLY
        | _IN_URL
        | {"repositoryId": "@repositoryId", "cleanupPolicies": "cleanupPolicies.*"}
        # The provider takes days and hours too (30d), and turns them into the API's seconds.
        | {"cleanupPolicies.condition.newerThan": "", "cleanupPolicies.condition.olderThan": ""},
    ),
    REPOSITORY_MEMBER: Target(
        "artifactregistry.v1",
        "Binding",
        "projects.locations.repositories",
        (),
        MEMBER | _IN_URL | {"repository": ""},
    ),
}
