"""Prints a warning that explains the failure of a resource, in addition to Pulumi's own error message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import monitor_supports_feature


def after_failure(
    owner: pulumi.Resource, hook: str, text: Callable[[pulumi.ErrorHookArgs], str], operations: tuple[str, ...]
) -> dict[str, Any]:
    """Return resource options that make `owner` log a warning if one of these operations fails.

    The options are empty for an engine without error hooks, and in a preview. A hook starts a callback server in the
    program. If a program with this server fails in a preview, it crashes in grpc (seen with grpcio on Python 3.11).
    """
    if pulumi.runtime.is_dry_run() or not monitor_supports_feature(resource_pb2.RESOURCE_MONITOR_FEATURE_ERROR_HOOKS):
        return {}

    def warn(failed: pulumi.ErrorHookArgs) -> bool:
        if failed.failed_operation in operations:
            pulumi.log.warn(text(failed), owner)
        return False  # do not retry; the next `pulumi up` creates the resource again

    return {"hooks": pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(hook, warn)])}
