"""The formats of Google's names for networks, templates, service accounts and other inputs of resources."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

# Any host and API version is accepted, because the provider uses the beta API for some resources and returns its links.
_PARENT = r"^(https://[a-z0-9.-]+/compute/[a-z0-9]+/)?projects/[a-z0-9.:-]+/"
# RFC 1035, as in the compute API's own patterns.
_NAME = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"

REGION = r"^[a-z]+-[a-z]+[0-9]+$"
ZONE = r"^[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]$"
"""A zone, such as us-central1-a or us-south1-ai1b. The second form is in Google's list of zones since 2026."""

# 6 to 30 characters (cloud.google.com/resource-manager/docs/creating-managing-projects). Older projects start with the
# domain of their organization.
Project = Annotated[str, Field(pattern=r"^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$")]
Zone = Annotated[str, Field(pattern=ZONE)]
Network = Annotated[str, Field(pattern=rf"{_PARENT}global/networks/{_NAME}$")]
Subnetwork = Annotated[str, Field(pattern=rf"{_PARENT}regions/[a-z0-9-]+/subnetworks/{_NAME}$")]
# In a template: the name of the reservation, or its path if another project shares it (compute v1,
# ReservationAffinity.values).
Reservation = Annotated[str, Field(pattern=rf"^(projects/[a-z0-9.:-]+/reservations/)?{_NAME}$")]
Template = Annotated[str, Field(pattern=rf"{_PARENT}regions/[a-z0-9-]+/instanceTemplates/{_NAME}(\?uniqueId=[0-9]+)?$")]
# Discovery document cloudbuild v1, NetworkConfig.peeredNetwork: "where {project} is a project number".
NumberedNetwork = Annotated[str, Field(pattern=rf"^projects/[0-9]+/global/networks/{_NAME}$")]
# Separators of the words of a name are dashes (cloud.google.com/artifact-registry/docs/repo-create).
_ImageRepository = Annotated[
    str, Field(pattern=r"^projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/repositories/[a-z]([a-z0-9-]*[a-z0-9])?$")
]
ImageRepositories = Annotated[
    list[_ImageRepository],
    Field(max_length=20, examples=[["projects/acme-ci/locations/us-central1/repositories/images"]]),
]
ServiceAccountEmail = Annotated[str, Field(pattern=r"^[a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com$")]
# cloud.google.com/storage/docs/buckets, "Bucket naming", without names of domains.
BucketName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]$")]
