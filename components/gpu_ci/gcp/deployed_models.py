"""The custom resource DeployedModels. When it is deleted, it undeploys the models of a Vertex AI endpoint."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pulumi
from pydantic import Field

from ..args import Args, Input, StrictBool
from ..plugin_resource import PluginResource


class DeployedModelsArgs(Args):
    """The endpoint whose models are undeployed."""

    endpoint: Input[Annotated[str, Field(pattern=r"^projects/[^/]+/locations/[a-z0-9-]+/endpoints/[0-9]{1,10}$")]] = (
        Field(description="the endpoint, as projects/<project>/locations/<location>/endpoints/<id>")
    )
    force_destroy: StrictBool = Field(
        default=False, description="whether to undeploy models that have traffic; by default, the deletion fails"
    )


class DeployedModels(PluginResource):
    """Undeploys the models of a Vertex AI endpoint before the endpoint is deleted.

    Google refuses to delete an endpoint with deployed models, and the models are not part of a stack: `gpu-ci deploy`
    deploys them.

    Creates: nothing. Costs: nothing.
    Deletes with this resource: the deployed models of the endpoint. If a model has traffic, the deletion fails, unless
    `forceDestroy` is true in the state.
    Replaces on change of: endpoint.
    The stack must name this package's plugin in Pulumi.yaml:
    `plugins: {providers: [{name: gpu-ci, path: components}]}`.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:DeployedModels"
    ARGS: ClassVar[type[Args]] = DeployedModelsArgs

    def __init__(self, name: str, args: DeployedModelsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
