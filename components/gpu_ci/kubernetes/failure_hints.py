"""Warnings that explain a failed resource after Pulumi's own error message."""

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

    The options are empty for an engine without error hooks. They are also empty in a preview, because the first hook
    starts a callback server in the program. A program that fails at that time crashes in grpc (seen with grpcio on
    Python 3.11).
    """
    if pulumi.runtime.is_dry_run() or not monitor_supports_feature(resource_pb2.RESOURCE_MONITOR_FEATURE_ERROR_HOOKS):
        return {}

    def warn(failed: pulumi.ErrorHookArgs) -> bool:
        if failed.failed_operation in operations:
            pulumi.log.warn(text(failed), owner)
        return False  # Do not retry now; the next `up` does.

    return {"hooks": pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(hook, warn)])}
