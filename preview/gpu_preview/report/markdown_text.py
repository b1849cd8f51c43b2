"""Converts any text into Markdown that GitHub shows literally, without formatting, links or mentions.

GitHub renders a comment in two steps:

1. It renders the Markdown, which has escapes (https://github.github.com/gfm/).
2. It then searches the rendered text for mentions, issues, commits and emoji. There, an escaped `@` is an `@` again.

The second step skips code (IGNORE_PARENTS in html-pipeline's lib/html_pipeline/node_filter/mention_filter.rb,
https://github.com/gjtorikian/html-pipeline). So everything except plain words and numbers is shown as code.
"""

from __future__ import annotations

import html
import re

from gpu_common.visible import visible, visible_lines

# A word of letters, or a number. A word with both can be a name, a commit or a reference of the repository.
_PLAIN = re.compile(
    r"""[("']*(?:[A-Za-z]+(?:['-][A-Za-z]+)*|(?:[0-9]{1,6}|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]{1,4})?%?)[)"']*[.,;:!?]?"""
)
_COMMIT = re.compile(r"[a-fA-F]{7,}")
_BEGINS_A_LIST = re.compile(r"[0-9]+[.)].*")
_AROUND = re.compile(r"(\(?)(.*?)(\)?[.,;:!?]?)")
_SIGNS = {"→", "…", "-"}


def code(text: str, limit: int | None = None) -> str:
    """Return the text as inline code."""
    shown = visible(text, limit) or "(empty)"
    ticks = "`" * (_longest_run(shown) + 1)
    # Markdown removes one space from both ends of inline code, unless the code has only spaces.
    pad = " " if shown.strip(" ") and (shown[0] in " `" or shown[-1] in " `") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def cell(text: str, limit: int | None = None) -> str:
    """Return the text as inline code in a table, whose cells end at a `|`.

    Markdown programs read an escaped `|` after a backslash differently, so it is written as `\\u007c`.
    """
    return code(re.sub(r"(?<=\\)\|", r"\\u007c", visible(text, limit))).replace("|", "\\|")


def prose(text: str, limit: int | None = None) -> str:
    """Return the text as one line, in which everything except plain words and numbers is code."""
    # A text of `limit` characters has fewer words than `limit`.
    words = text.split() if limit is None else text.split(None, limit)[:limit]
    tokens = visible(" ".join(words), limit).split(" ")
    return " ".join(word if _is_plain(word, first=at == 0) else _quoted(word) for at, word in enumerate(tokens))


def block(text: str, limit: int | None = None, language: str = "") -> list[str]:
    """Return the lines of a code block, with its fences."""
    shown = visible_lines(text, limit)
    fence = "`" * max(3, _longest_run(shown) + 1)
    return [f"{fence}{language}", *shown.split("\n"), fence]


def html_code(text: str, limit: int | None = None) -> str:
    """Return the text as code in HTML, for example in the summary of a `<details>` element."""
    return f"<code>{html.escape(visible(text, limit))}</code>"


def _is_plain(word: str, first: bool) -> bool:
    if first and (word in _SIGNS or _BEGINS_A_LIST.fullmatch(word)):
        return False
    return word in _SIGNS or (_PLAIN.fullmatch(word) is not None and _COMMIT.search(word) is None)


def _quoted(word: str) -> str:
    """Return the word as code, without the punctuation around it."""
    before, core, after = _AROUND.fullmatch(word).groups()  # type: ignore[union-attr] # it matches any word
    return f"{before}{code(core)}{after}" if core else code(word)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
