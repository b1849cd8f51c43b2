"""The name of the stack file, and the line numbers of its values, for error messages of the program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import yaml

from gpu_ci.stack.lines import LineOf, lines_of, no_line


def stack_file() -> str:
    """Return the name of the stack file, for error messages."""
    return f"Pulumi.{pulumi.get_stack()}.yaml"


def stack_lines(values: Mapping[str, Any]) -> LineOf:
    """Return a function that finds the line of a path in the stack file.

    `values` are the values from the engine. If the values in the file differ, the engine has read another file
    (`--config-file`, or `stackConfigDir` of Pulumi.yaml). The function then finds no lines.
    """
    try:
        root = pulumi.runtime.get_root_directory()  # the program itself runs in the folder `main`
        text = Path(root, stack_file()).read_text(encoding="utf-8")
        config = yaml.safe_load(text)["config"]
        if all(config.get(key) == value for key, value in values.items()):
            return lines_of(text)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, yaml.YAMLError):
        pass
    return no_line
