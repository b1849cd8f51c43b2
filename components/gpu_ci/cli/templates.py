"""The template engine of `gpu-ci init` and `gpu-ci new-project`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any

import jinja2

from gpu_ci.errors import in_yaml


def environment(**options: Any) -> jinja2.Environment:
    """Return an environment for files that are no HTML. The filters `yaml` and `to_json` quote values."""
    found = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the files are YAML, TOML, Markdown and Python
        **options,
    )
    found.filters |= {
        "yaml": in_yaml,
        "to_json": json.dumps,
        "regex_search": lambda text, pattern: re.search(pattern, text),
    }
    return found


def render(folder: Traversable, values: Mapping[str, Any], suffix: str) -> dict[str, str]:
    """Return the text of each file of a folder, by path. A file without the suffix is copied as it is.

    Names of files are templates too.
    """
    engine, files = environment(), dict[str, str]()

    def add(place: Traversable, path: str) -> None:
        for each in sorted(place.iterdir(), key=lambda found: found.name):
            name = f"{path}{engine.from_string(each.name).render(values)}"
            if each.is_dir():
                add(each, f"{name}/")
            else:
                text = each.read_text(encoding="utf-8")
                is_template = name.endswith(suffix)
                files[name.removesuffix(suffix)] = engine.from_string(text).render(values) if is_template else text

    add(folder, "")
    return files
