"""The error for a created resource that did not become ready. The engine keeps the resource in the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import any_pb2
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi.runtime.proto import status_pb2

from pulumi_sandbox.providers.secret_digests import mask_secrets
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.providers.wire import encode, request_values

# The gRPC metadata key for error details (grpc.io/docs/guides/error, "Richer error model").
DETAILS = "grpc-status-details-bin"


class NotReady(Exception):  # noqa: N818 - an answer of the vendor, not a failure of ours
    """The resource did not become ready. `outputs` are those that changed since its creation."""

    def __init__(self, text: str, reasons: Sequence[str] = (), outputs: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.reasons = [text, *reasons]
        self.outputs = outputs or {}
        self.id, self.all_outputs = "", Decoded({})

    def with_resource(self, id: str, outputs: Decoded) -> NotReady:  # noqa: A002 - Pulumi's own word
        """Set the resource that the state must keep, and return the error."""
        self.id, self.all_outputs = id, outputs
        return self

    def add_details(self, context: grpc.ServicerContext, request: Any) -> str:
        """Add the engine's ErrorResourceInitFailed to the error of the call, and return the error's text."""
        reasons = [mask_secrets(one, request_values(request)) for one in self.reasons]
        inputs_field = {pb.CreateRequest: "properties", pb.UpdateRequest: "news", pb.ReadRequest: "inputs"}[
            type(request)
        ]
        outputs = encode(self.all_outputs.values, self.all_outputs.secrets)
        detail = any_pb2.Any()
        detail.Pack(
            pb.ErrorResourceInitFailed(
                id=self.id, properties=outputs, reasons=reasons, inputs=getattr(request, inputs_field)
            )
        )
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reasons[0], details=[detail])
        context.set_trailing_metadata(((DETAILS, status.SerializeToString()),))
        return reasons[0]
