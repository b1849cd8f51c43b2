"""The custom resource definitions of ARC, which its controller's chart brings and Helm never updates.

arc_definitions.json has them without their descriptions, which are nine tenths of their 3 MB and nothing but help for
`kubectl explain`. The definitions of another version are what `helm show crds` prints for the chart, each put through

    jq -cS 'walk(if type == "object" and (.description | type) == "string" then del(.description) else . end)'
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

_DASHED = re.compile(r'"x-kubernetes-[a-z-]+":')


@cache
def _file() -> dict[str, Any]:
    text = files(__package__).joinpath("arc_definitions.json").read_text(encoding="utf-8")
    # As the SDK writes these names; the provider writes them back (pulumi-kubernetes at 94977969,
    # provider/pkg/provider/provider.go).
    return dict(json.loads(_DASHED.sub(lambda found: found[0].replace("-", "_"), text)))


def version() -> str:
    """The version of the chart they are of."""
    return str(_file()["version"])


def definitions() -> list[dict[str, Any]]:
    """The definitions, in the order the chart has them."""
    return list(_file()["definitions"])
