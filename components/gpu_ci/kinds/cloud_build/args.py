"""The arguments of the kind cloud-build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from gpu_catalog.cost import Metered
from pydantic import AfterValidator, ConfigDict, Field, field_validator

from ...args import Input, Integer, StrictBool
from ...gcp import identities
from ...gcp.build import rules
from ...gcp.build.models import BuildTrigger, PeeredNetwork, RegistrySettings
from ...gcp.regions import BUILDS_OF_RESTRICTED_PROJECTS
from ...gcp.resource_names import Project
from ...labels import Labels
from ...pool_args import PoolArgs


class BuildPoolArgs(PoolArgs):
    """The arguments of a Cloud Build pool."""

    model_config = ConfigDict(json_schema_extra=rules.add_to_schema)
    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "labels"})
    CREATES: ClassVar[tuple[str, ...]] = (
        "gcp:artifactregistry/repository:Repository",
        "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
        "gcp:cloudbuild/workerPool:WorkerPool",
        *identities.TYPES,
    )
    CREATES_WITH: ClassVar[Mapping[str, tuple[str, ...]]] = {"triggers": ("gcp:cloudbuild/trigger:Trigger",)}

    region: str = Field(description="the region of the workers, the registry and the triggers, such as us-central1")
    machine_type: str = Field(
        default="e2-standard-2",
        validate_default=True,
        description="a machine type of Cloud Build private pools, such as e2-standard-8; none has a GPU",
    )
    # cloud.google.com/build/docs/private-pools/create-manage-private-pools: 100 to 4000, and 100 by default.
    disk_gib: Integer = Field(default=100, ge=100, le=4000, description="size of a worker's disk in GiB, 100 to 4000")
    network: PeeredNetwork | None = Field(
        default=None,
        description="how workers connect to your network; by default they run in Google's network and cannot reach "
        "yours",
    )
    public_egress: StrictBool = Field(
        default=False,
        description="whether workers have public addresses, to reach the internet including github.com; by default, "
        "workers reach Google APIs and the addresses that your network allows",
    )
    registry: RegistrySettings = Field(
        default=RegistrySettings(), validate_default=True, description="the pool's Artifact Registry repository"
    )
    logging: Literal["CLOUD_LOGGING_ONLY", "NONE"] = Field(
        default="CLOUD_LOGGING_ONLY",
        description="the destination of build logs, for builds whose steps are in the stack file; a build file has "
        "its own setting",
    )
    triggers: dict[Annotated[str, AfterValidator(rules.trigger_name)], BuildTrigger] = Field(
        default={}, description="the triggers that start builds, by name"
    )

    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project of the pool")
    labels: Labels = Field(default={}, description="labels of every resource that supports labels")

    @field_validator("region")
    @classmethod
    def _region(cls, value: str) -> str:
        return rules.region(value)

    @field_validator("machine_type")
    @classmethod
    def _machine_type(cls, value: str) -> str:
        return rules.machine_type(value)

    def metered(self, name: str) -> Metered:
        """Return that Google bills the pool by the build minute. The catalog has no prices for this unit."""
        return Metered(name, self.machine_type, self.region, "build-minute")

    def prerequisites(self, path: str) -> Iterator[str]:
        restricted = self.region not in BUILDS_OF_RESTRICTED_PROJECTS
        elsewhere = f", and {rules.RESTRICTED}" if restricted else ""
        yield (
            f"{path}: a new project may have no quota for private pools or their CPUs in {self.region}"
            f"{elsewhere}; hint: see "
            "cloud.google.com/build/quotas before the first up"
        )
        repositories = {each.repository for each in self.triggers.values() if not each.repository_resource}
        if repositories:
            yield f"{path}.triggers: {rules.connect(', '.join(sorted(repositories)), self.region)}"
