"""The error for a created resource that did not become ready. The engine keeps it in the state, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import any_pb2
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi.runtime.proto import status_pb2

from pulumi_sandbox.providers.secret_digests import masked
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.providers.wire import encode, sent

# The gRPC metadata key for error details (grpc.io/docs/guides/error, "Richer error model").
DETAILS = "grpc-status-details-bin"


class NotReady(Exception):  # noqa: N818 - an answer of the vendor, not a failure of ours
    """The resource did not become ready. The reasons are listed below the text; outputs are the current ones."""

    def __init__(self, text: str, reasons: Sequence[str] = (), outputs: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.reasons = [text, *reasons]
        self.outputs = outputs or {}
        self.id, self.made = "", Decoded({})

    def of(self, id: str, made: Decoded) -> NotReady:  # noqa: A002 - Pulumi's own word
        """Set the resource that the state must keep, and return the error."""
        self.id, self.made = id, made
        return self

    def announce(self, call: grpc.ServicerContext, request: Any) -> str:
        """Add the engine's ErrorResourceInitFailed to the error of the call, and return the error's text."""
        reasons = [masked(one, sent(request)) for one in self.reasons]
        given = {pb.CreateRequest: "properties", pb.UpdateRequest: "news", pb.ReadRequest: "inputs"}[type(request)]
        made = encode(self.made.values, self.made.secrets)
        detail = any_pb2.Any()
        detail.Pack(
            pb.ErrorResourceInitFailed(id=self.id, properties=made, reasons=reasons, inputs=getattr(request, given))
        )
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reasons[0], details=[detail])
        call.set_trailing_metadata(((DETAILS, status.SerializeToString()),))
        return reasons[0]
