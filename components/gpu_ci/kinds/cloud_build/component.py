"""The component BuildPool: a Cloud Build private pool, a registry for images, and the triggers that start builds."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pulumi
import pulumi_gcp as gcp

from ... import naming
from ...args import Args
from ...component import Component
from ...gcp import identities
from ...gcp.build.models import BuildFile, BuildTrigger, PullRequestEvent, TagEvent
from ...gcp.build.steps import api_steps
from ...gcp.build.trigger import TriggeredBuild, source_trigger
from ...labels import merge
from .args import BuildPoolArgs
from .kind import KIND

_DAY_SEC = 86400


class BuildPool(Component):
    """Cloud Build workers for builds that need no GPU, a registry for images, and triggers on GitHub events.

    Creates: a private pool, an Artifact Registry repository with a cleanup policy, and a trigger for each entry of
    `triggers`. A service account for builds, which may write logs, use private pools of the project and write to the
    Artifact Registry repository. If a trigger builds pull requests: a second service account that may only read the
    Artifact Registry repository.
    Costs: nothing while no build runs. Builds are billed by the minute, disks above 100 GiB by their size, and images
    by the GiB stored.
    Does not: give a build a GPU, because the API of private pools has no field for one. To let builds start machines
    with GPUs, grant that permission to serviceAccountEmail. The component does not connect GitHub repositories or set
    up peering. Builds may use every private pool of their project. A build file can therefore name another pool, even
    in a pull request. Keep pools with access to your network and pools that build untrusted changes in separate
    projects.
    Replaces on change of: the private pool for network; everything, including all images, for region. Machine type,
    disk, publicEgress and triggers are changed in place.
    """

    TYPE: ClassVar[str] = KIND.resource_type
    ARGS: ClassVar[type[Args]] = BuildPoolArgs
    ENTRY_NAME: ClassVar[str] = KIND.entry_name
    EXAMPLE: ClassVar[dict[str, Any]] = KIND.example

    pool: pulumi.Output[str]
    """Resource name of the pool, for options.pool.name of a build."""
    registry: pulumi.Output[str]
    """Address of the image registry, such as us-central1-docker.pkg.dev/acme-ci/build-builds-prod."""
    service_account_email: pulumi.Output[str]
    """Service account of builds of pushes and tags. Grant it access to resources other than the registry."""

    def __init__(self, name: str, args: BuildPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        workers = self._workers()
        repository = self._repository()
        host = f"{args.region}-docker.pkg.dev/"
        self.registry = pulumi.Output.concat(host, args.project, "/", repository.repository_id)
        self.pool = workers.id
        writing = self._account("account", "build", repository, "writer")
        # A pull request can contain untrusted code. Its service account must not be able to write anything that a later
        # build uses.
        has_pull_trigger = any(isinstance(each.event, PullRequestEvent) for each in args.triggers.values())
        reading = self._account("pull-account", "pull", repository, "reader") if has_pull_trigger else writing
        for key, trigger in sorted(args.triggers.items()):
            account, grants = reading if isinstance(trigger.event, PullRequestEvent) else writing
            source_trigger(
                f"{name}-trigger-{key}",
                # The name of a trigger must be unique in the project. Several stacks may share a project, so the name
                # contains the stack.
                naming.fit(f"{name}-{key}-{pulumi.get_stack()}", 64),
                trigger,
                args.project,
                args.region,  # a trigger can use the pool only in the pool's region
                self._triggered(trigger, account.name),
                # A push can start a build as soon as the trigger exists. The grants must exist before, or the build
                # would fail.
                self.child(depends_on=grants),
            )
        self.service_account_email = writing[0].email
        self.register()

    def _triggered(self, trigger: BuildTrigger, account: pulumi.Output[str]) -> TriggeredBuild:
        """Return the build of a trigger. Build files read the pool, the registry and the cache from substitutions."""
        substitutions: dict[str, pulumi.Input[str]] = {
            **trigger.substitutions,
            "_POOL": self.pool,
            "_REGISTRY": self.registry,
            "_CACHE": pulumi.Output.concat(self.registry, "/cache"),
        }
        if isinstance(trigger.build, BuildFile):
            return TriggeredBuild(account, None, trigger.build.filename, substitutions)
        pushes, tagged = not isinstance(trigger.event, PullRequestEvent), isinstance(trigger.event, TagEvent)
        build = gcp.cloudbuild.TriggerBuildArgs(
            steps=api_steps(trigger.build.steps, self.registry, pushes=pushes, tagged=tagged),
            timeout=f"{trigger.build.timeout_sec}s",
            # With a custom service account, the log mode must be set. The API deprecates workerPool in favor of
            # pool.name, which the provider does not support.
            options=gcp.cloudbuild.TriggerBuildOptionsArgs(logging=self._args.logging, worker_pool=self.pool),
        )
        return TriggeredBuild(account, build, None, substitutions)

    def _workers(self) -> gcp.cloudbuild.WorkerPool:
        args, network = self._args, self._args.network
        return gcp.cloudbuild.WorkerPool(
            f"{self._name}-workers",
            project=args.project,
            location=args.region,
            worker_config={
                "machine_type": args.machine_type,
                "disk_size_gb": args.disk_gib,
                "no_external_ip": not args.public_egress,
            },
            network_config={"peered_network": network.network, "peered_network_ip_range": network.ip_range}
            if network
            else None,
            opts=self.child(),
        )

    def _repository(self) -> gcp.artifactregistry.Repository:
        args, settings = self._args, self._args.registry
        return gcp.artifactregistry.Repository(
            f"{self._name}-registry",
            project=args.project,
            location=args.region,
            repository_id=naming.fit(
                f"build-{self._name}-{pulumi.get_stack()}", 63
            ),  # the resource has no automatic name
            description=f"images of the build pool {self._name}",
            format="DOCKER",
            labels=merge(args.labels, {"gpu-ci-pool": self._name}),
            # If both policies match a version, Artifact Registry keeps the version.
            cleanup_policies=[
                {
                    "id": "keep-most-recent",
                    "action": "KEEP",
                    "most_recent_versions": {"keep_count": settings.keep_most_recent},
                },
                {
                    "id": "delete-untagged",
                    "action": "DELETE",
                    "condition": {
                        "tag_state": "UNTAGGED",
                        "older_than": f"{settings.delete_untagged_after_days * _DAY_SEC}s",
                    },
                },
            ],
            vulnerability_scanning_config={"enablement_config": "INHERITED" if settings.scanning else "DISABLED"},
            opts=self.child(),
        )

    def _account(
        self, role: str, prefix: str, repository: gcp.artifactregistry.Repository, access: Literal["writer", "reader"]
    ) -> tuple[gcp.serviceaccount.Account, list[pulumi.Resource]]:
        """Create the service account of builds, with grants of the three permissions that a build needs."""
        args = self._args
        account = identities.service_account(
            f"{self._name}-{role}",
            prefix,
            self._name,
            f"{'pull request ' if access == 'reader' else ''}builds of the pool {self._name}",
            args.project,
            self.child(),
        )
        # The permission to use a private pool is granted on the project, because the API has no policy for a single
        # pool. Triggers of the same project need no grant (cloud.google.com/build/docs/private-pools/
        # run-builds-in-private-pool). It is not verified that this is true for triggers with a custom service account,
        # so the grant is created anyway.
        name = f"{self._name}-{role}"
        grants: list[pulumi.Resource] = [
            identities.in_project(f"{name}-{right}", f"roles/{granted}", account, args.project, self.child())
            for right, granted in (("log-writer", "logging.logWriter"), ("pool-user", "cloudbuild.workerPoolUser"))
        ]
        grants.append(
            identities.on_registry(
                f"{name}-registry-{access}", access, account, args.project, args.region, repository.name, self.child()
            )
        )
        return account, grants
