"""Makes a page of each notebook that ran, also of a failed one."""

from __future__ import annotations

import common


def main() -> None:
    for notebook in common.get_json("prepared.json")["notebooks"]:
        convert(notebook)


def convert(notebook: str) -> None:
    """Store the page of a notebook. A notebook that cannot be converted is only reported."""
    import nbformat
    from nbconvert import HTMLExporter

    try:
        content = common.get(f"{common.folder(notebook)}/out.ipynb")
        if content is None:
            common.log(f"{notebook}: it did not run")
            return
        # The classes, not the command, because the command also reads settings from the working folder.
        read = nbformat.reads(content.decode(), as_version=4)
        page, _ = HTMLExporter().from_notebook_node(read, {"metadata": {"name": notebook}})
        common.put(f"{common.folder(notebook)}/out.html", page.encode())
    except Exception as error:
        common.log(f"{notebook}: cannot be converted: {common.explain(error)}")


if __name__ == "__main__":
    common.run(main)
