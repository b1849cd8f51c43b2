"""The regions of Google Cloud services, each list with its source."""

from __future__ import annotations

# cloud.google.com/build/docs/locations.
CLOUD_BUILD = (
    "africa-south1",
    "asia-east1", "asia-east2", "asia-northeast1", "asia-northeast2", "asia-northeast3", "asia-south1", "asia-south2",
    "asia-southeast1", "asia-southeast2", "australia-southeast1", "australia-southeast2",
    "europe-central2", "europe-north1", "europe-north2", "europe-southwest1", "europe-west1", "europe-west2",
    "europe-west3", "europe-west4", "europe-west6", "europe-west8", "europe-west9", "europe-west10", "europe-west12",
    "me-central1", "me-central2", "me-west1",
    "northamerica-northeast1", "northamerica-northeast2", "northamerica-south1",
    "southamerica-east1", "southamerica-west1",
    "us-central1", "us-east1", "us-east4", "us-east5", "us-south1", "us-west1", "us-west2", "us-west3", "us-west4",
)  # fmt: skip

BUILDS_OF_RESTRICTED_PROJECTS = (
    "us-central1", "us-west2", "europe-west1", "asia-east1", "australia-southeast1", "southamerica-east1",
)  # fmt: skip
"""The regions of Cloud Build for projects that Google restricts to some regions (same page)."""

# The regions in the discovery document compute v1 (revision 20261106, endpoints): those of Cloud Build and one more.
COMPUTE = (*CLOUD_BUILD, "asia-southeast3")
