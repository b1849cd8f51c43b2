"""Pulumi's JSON format for secrets, assets, references to resources, and unknown values.

The key SIGNATURE marks such an object (pulumi/pulumi v3.259.0, sdk/go/common/resource/sig/sig.go). An unknown value is
one fixed text for each type (sdk/go/common/resource/plugin/rpc.go, UnknownBoolValue to UnknownObjectValue).
"""

from __future__ import annotations

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a signature
ASSET = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"
REFERENCE = "5cf8f73096256a8f31e491e813e4eb8e"
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

UNKNOWN_STRING = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""An unknown text, or an unknown value of unknown type."""
UNKNOWNS = frozenset(
    {
        UNKNOWN_STRING,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # a boolean
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # a number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # a list
        "030794c1-ac77-496b-92df-f27374a8bd58",  # an asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # an archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # an object
    }
)
