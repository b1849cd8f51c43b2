"""The component VertexEndpoint: an endpoint on Vertex AI whose models and traffic split `gpu-ci deploy` changes."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from pydantic import Field

from ..args import ComponentArgs, Input, StrictBool
from ..component import Component
from ..labels import Labels, merge
from . import identities
from .deployed_models import DeployedModels, DeployedModelsArgs
from .resource_names import REGION, NumberedNetwork, Project, ServiceAccountEmail

DEPLOYER_PERMISSIONS = (
    "aiplatform.endpoints.deploy",
    "aiplatform.endpoints.get",
    "aiplatform.endpoints.undeploy",
    "aiplatform.endpoints.update",
    "monitoring.timeSeries.list",
)
"""The permissions of `gpu-ci deploy` on the project. It also uses the serving account."""
_Channel = Annotated[str, Field(pattern=r"^projects/[^/]+/notificationChannels/[^/]+$")]
_ERRORS_FOR_SEC = 300
_CHANGED_BY_ROLLOUTS = ["trafficSplit", "labels"]


class VertexEndpointArgs(ComponentArgs):
    """The arguments of an endpoint on Vertex AI."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "labels"})

    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project of the endpoint")
    location: Annotated[str, Field(pattern=REGION)] = Field(
        description="the region of the endpoint, such as europe-west4; a change replaces the endpoint"
    )
    deployer: Input[ServiceAccountEmail] = Field(
        description="the service account that runs `gpu-ci deploy`, such as that of a GithubIdentity"
    )
    labels: Labels = Field(
        default={}, description="labels of the endpoint when it is created; later changes of them are ignored"
    )
    network: Input[NumberedNetwork] | None = Field(
        default=None,
        description="the network to which the endpoint is peered, as projects/<number>/global/networks/<name>; by "
        "default the endpoint is reachable by Google's API with an IAM permission",
    )
    dedicated: StrictBool = Field(
        default=True, description="whether the endpoint has a DNS name of its own, which isolates its requests"
    )
    max_error_ratio: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.1, description="the share of failed requests above which the alert fires, for five minutes"
    )
    notification_channels: list[Input[_Channel]] = Field(
        default=[], description="the channels of the alert, as projects/<project>/notificationChannels/<id>"
    )
    force_destroy: StrictBool = Field(
        default=False, description="whether the deletion undeploys models that have traffic; by default, it fails"
    )


class VertexEndpoint(Component):
    """An endpoint on Vertex AI for rollouts with `gpu-ci deploy`.

    Creates: an endpoint without models, a service account for the containers of models, a custom role with the
    permissions of `gpu-ci deploy` that `deployer` gets, permission for `deployer` to use the service account, and an
    alert for failed requests.
    Costs: nothing until a model is deployed. A deployed model costs its machines.
    Does not: deploy models or set the traffic split: `gpu-ci deploy` changes both, and `pulumi up` ignores them, with
    the labels. It does not grant the service account access to data, such as the bucket of a model.
    Replaces on change of: the endpoint for project, location, network and dedicated. Its models and its address are
    lost. All other changes are in place.
    The stack must name this package's plugin in Pulumi.yaml:
    `plugins: {providers: [{name: gpu-ci, path: components}]}`.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:VertexEndpoint"
    ARGS: ClassVar[type[ComponentArgs]] = VertexEndpointArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "location": "europe-west4",
        "deployer": "gh-deploy-prod@acme-ml.iam.gserviceaccount.com",
    }

    endpoint: pulumi.Output[str]
    """The endpoint, for `gpu-ci deploy`: projects/<project>/locations/<location>/endpoints/<id>."""
    serving_account: pulumi.Output[str]
    """The service account of the containers, for serviceAccount in the settings of a rollout."""
    dns: pulumi.Output[str]
    """The DNS name of a dedicated endpoint; empty otherwise."""

    def __init__(self, name: str, args: VertexEndpointArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        account = identities.service_account(
            f"{name}-account", "sv", name, f"Vertex AI endpoint {name}", args.project, self.child()
        )
        deployer = pulumi.Output.concat("serviceAccount:", args.deployer)
        role = identities.custom_role(
            f"{name}-role", f"gpu-ci-deploy-{name}", f"gpu-ci deploy: {name}", DEPLOYER_PERMISSIONS, args.project,
            self.child(),
        )  # fmt: skip
        gcp.projects.IAMMember(f"{name}-deployer", project=args.project, role=role, member=deployer, opts=self.child())
        gcp.serviceaccount.IAMMember(
            f"{name}-account-user",
            service_account_id=account.name,
            role="roles/iam.serviceAccountUser",
            member=deployer,
            opts=self.child(),
        )
        endpoint = gcp.vertex.AiEndpoint(
            f"{name}-endpoint",
            name=endpoint_id(name, pulumi.get_stack()),
            project=args.project,
            location=args.location,
            region=args.location,
            display_name=f"{name}-{pulumi.get_stack()}",
            network=args.network,
            dedicated_endpoint_enabled=args.dedicated and args.network is None,
            labels=merge(args.labels, {"gpu-ci-pool": name}),
            opts=self.child(ignore_changes=_CHANGED_BY_ROLLOUTS),
        )
        self.endpoint = pulumi.Output.concat(
            "projects/", args.project, f"/locations/{args.location}/endpoints/", endpoint.name
        )
        DeployedModels(
            f"{name}-models",
            DeployedModelsArgs(endpoint=self.endpoint, force_destroy=args.force_destroy),
            opts=self.child(depends_on=[endpoint]),
        )
        self._alert(name, args, endpoint.name)
        self.serving_account = account.email
        self.dns = endpoint.dedicated_endpoint_dns.apply(lambda dns: dns or "")
        self.register()

    def _alert(self, name: str, args: VertexEndpointArgs, endpoint: pulumi.Output[str]) -> None:
        """Create the alert for failed requests of all models together. `gpu-ci deploy` compares them."""
        title = f"{name}: failed requests"

        def rate(count: str, number: str) -> str:
            metric = f"aiplatform_googleapis_com:prediction_online_{count}_count"
            return f'sum(rate({metric}{{endpoint_id="{number}"}}[5m]))'

        def query(number: str) -> str:
            return f"{rate('error', number)} / {rate('prediction', number)} > {args.max_error_ratio:g}"

        gcp.monitoring.AlertPolicy(
            f"{name}-errors",
            project=args.project,
            display_name=title,
            combiner="OR",
            severity="CRITICAL",
            documentation={
                "content": "Many requests of the endpoint fail. `gpu-ci deploy status` shows the models, and `gpu-ci "
                "deploy rollback` returns to the earlier one: docs/guides/roll-out-a-model.md",
                "mime_type": "text/markdown",
            },
            conditions=[
                {
                    "display_name": title,
                    "condition_prometheus_query_language": {
                        "query": endpoint.apply(query),
                        "duration": f"{_ERRORS_FOR_SEC}s",
                        "evaluation_interval": "60s",
                        # Without this setting, Cloud Monitoring rejects a policy over a metric without data.
                        "disable_metric_validation": True,
                    },
                }
            ],
            notification_channels=args.notification_channels,
            user_labels=merge(args.labels, {"gpu-ci-pool": name}),
            opts=self.child(),
        )


def endpoint_id(name: str, stack: str) -> str:
    """Return the id of an endpoint: at most 10 digits, without a zero at the beginning. It has no automatic name."""
    digest = hashlib.sha256(f"{stack}\n{name}".encode()).digest()
    return str(10**9 + int.from_bytes(digest[:8], "big") % (9 * 10**9))
