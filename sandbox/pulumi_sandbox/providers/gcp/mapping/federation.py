"""Map properties of workload identity pools to fields of the Google API (target.py describes the form).

The renames are those of terraform-provider-google (google/services/iambeta).
"""

from __future__ import annotations

from pulumi_sandbox.providers.gcp.mapping.target import PROVIDER_ONLY, Target

POOL = "gcp:iam/workloadIdentityPool:WorkloadIdentityPool"
POOL_PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"

_BUNDLES = "inlineTrustConfig.additionalTrustBundles"
_COLLECTION = "projects.locations.workloadIdentityPools"

TARGETS: dict[str, Target] = {
    POOL: Target(
        "iam.v1",
        "WorkloadIdentityPool",
        _COLLECTION,
        (),
        # Attestation rules have methods of their own.
        PROVIDER_ONLY
        | {
            "project": "",
            "workloadIdentityPoolId": "@workloadIdentityPoolId",
            "attestationRules": "",
            _BUNDLES: "additionalTrustBundles.*",
            f"{_BUNDLES}.trustDomain": "",  # the key of the API's map
        },
    ),
    POOL_PROVIDER: Target(
        "iam.v1",
        "WorkloadIdentityPoolProvider",
        f"{_COLLECTION}.providers",
        (),
        PROVIDER_ONLY
        | {
            "project": "",
            "workloadIdentityPoolId": "",
            "workloadIdentityPoolProviderId": "@workloadIdentityPoolProviderId",
        },
    ),
}
