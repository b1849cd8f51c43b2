"""Writes the generated files of docs/ (`make docs`): pools, components, policies, checks, schemas."""

from __future__ import annotations

from gpu_ci.program.keys import Keys
from gpu_ci.stack.schema import as_json, stack_schema

from tools.docs import commands, components, stack_file, tables
from tools.docs.tables import DOCS


def pages() -> dict[str, str]:
    """Return the text of every generated file, by its path below docs/."""
    schema = stack_schema(Keys, Keys.KEYS)
    return {
        **components.pages(),
        "pulumi-stack.schema.json": as_json(schema),
        "reference/stack-file.md": stack_file.page(schema),
        "reference/commands.md": commands.page(),
        "reference/gpu-smoke-receipt.md": "\n".join(tables.smoke_receipt()),
        "guides/policies.md": tables.policies(),
        "reference/runner-ends.md": "\n".join(tables.runner_ends()),
        "reference/gpu-build-step.md": tables.gpu_build_step(),
        "reference/preview-dangers.md": "\n".join(tables.preview_dangers()),
        "reference/gpu-floors.md": "\n".join(tables.gpu_floors()),
        "../smoke/gpu_smoke/data/gpu_table.py": "\n".join(tables.gpu_table()),
        "preview-report.schema.json": tables.preview_report(),
    }


if __name__ == "__main__":
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
