"""The bootstrap program: creates the state bucket, the key and the identities for the deployment of pools."""

from __future__ import annotations

import signal
from typing import Any

import pulumi

from bootstrap import commands, settings

# After a failed resource, Pulumi's language host ends the program with SIGINT. Without this line, Python would print a
# traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

stack_settings = settings.load()
outputs: dict[str, Any] = {}

# Pulumi's package of a cloud is loaded only if needed.
if stack_settings.project:
    from bootstrap import google

    outputs |= google.build(stack_settings)
if stack_settings.aws:
    from bootstrap import amazon

    outputs |= amazon.build(stack_settings, stack_settings.aws)
for name, value in outputs.items():
    pulumi.export(name, value)
pulumi.export("commands", commands.at_github(stack_settings, outputs))
