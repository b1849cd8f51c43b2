"""The bootstrap program: creates the state bucket, the key and the identities for the deployment of pools."""

from __future__ import annotations

import signal

import pulumi

from bootstrap import google, settings

# After a failed resource, Pulumi's language host ends the program with SIGINT. Without this line, Python would print a
# traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

stack_settings = settings.load()
for name, value in google.build(stack_settings).items():
    pulumi.export(name, value)

# Pulumi's AWS package is loaded only if needed.
if stack_settings.aws:
    from bootstrap import amazon

    pulumi.export("aws", amazon.build(stack_settings, stack_settings.aws.region))
