"""The custom resource definitions of ARC. The controller's chart contains them, but Helm never updates them.

arc_definitions.json contains the definitions without their descriptions. The descriptions are help texts for `kubectl
explain`, and nine tenths of 3 MB. To update the file, run `helm show crds` for the chart, and pass each definition
through

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
    # The Pulumi SDK uses these names with underscores. The provider converts them back to dashes (pulumi-kubernetes at
    # 94977969, provider/pkg/provider/provider.go).
    return dict(json.loads(_DASHED.sub(lambda found: found[0].replace("-", "_"), text)))


def version() -> str:
    """Return the version of the definitions' chart."""
    return str(_file()["version"])


def definitions() -> list[dict[str, Any]]:
    """Return the definitions, in the order of the chart."""
    return list(_file()["definitions"])
