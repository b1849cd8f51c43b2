"""Any text as Markdown that GitHub shows literally: it formats nothing, links nowhere and pings nobody.

What GitHub makes of a comment has two steps, and both matter. The Markdown itself (https://github.github.com/gfm/)
knows escapes; but mentions, issues, commits and emoji are looked for afterwards, in the text that came out, where an
escaped `@` is an `@` again. They are not looked for in code (IGNORE_PARENTS in html-pipeline's
lib/html_pipeline/node_filter/mention_filter.rb, https://github.com/gjtorikian/html-pipeline). So whatever is more than
a plain word is shown as code.
"""

from __future__ import annotations

import html
import re

from gpu_common.visible import visible, visible_lines

# Letters only, or a number: nothing with both, which may be a name, a commit or a repository's own kind of reference.
_PLAIN = re.compile(
    r"""[("']*(?:[A-Za-z]+(?:['-][A-Za-z]+)*|(?:[0-9]{1,6}|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]{1,4})?%?)[)"']*[.,;:!?]?"""
)
_COMMIT = re.compile(r"[a-fA-F]{7,}")
_BEGINS_A_LIST = re.compile(r"[0-9]+[.)].*")
_AROUND = re.compile(r"(\(?)(.*?)(\)?[.,;:!?]?)")
_SIGNS = {"→", "…", "-"}


def code(text: str, limit: int | None = None) -> str:
    """As inline code."""
    shown = visible(text, limit) or "(empty)"
    ticks = "`" * (_longest_run(shown) + 1)
    # One blank at both ends is taken off again by whoever reads Markdown, unless there is nothing but blanks.
    pad = " " if shown.strip(" ") and (shown[0] in " `" or shown[-1] in " `") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def cell(text: str, limit: int | None = None) -> str:
    """As inline code in a table, whose cells end at a `|`.

    After a backslash, readers disagree on whether an escaped `|` is one; that one is written as `\\u007c`.
    """
    return code(re.sub(r"(?<=\\)\|", r"\\u007c", visible(text, limit))).replace("|", "\\|")


def prose(text: str, limit: int | None = None) -> str:
    """As a sentence in which everything but plain words and numbers is code. Its lines are joined."""
    # As many words as there may be characters are more than are shown.
    found = text.split() if limit is None else text.split(None, limit)[:limit]
    tokens = visible(" ".join(found), limit).split(" ")
    return " ".join(word if _is_plain(word, first=at == 0) else _quoted(word) for at, word in enumerate(tokens))


def block(text: str, limit: int | None = None, language: str = "") -> list[str]:
    """As lines of a code block, its fences among them."""
    shown = visible_lines(text, limit)
    fence = "`" * max(3, _longest_run(shown) + 1)
    return [f"{fence}{language}", *shown.split("\n"), fence]


def html_code(text: str, limit: int | None = None) -> str:
    """As code within HTML of our own, such as a summary that folds."""
    return f"<code>{html.escape(visible(text, limit))}</code>"


def _is_plain(word: str, first: bool) -> bool:
    if first and (word in _SIGNS or _BEGINS_A_LIST.fullmatch(word)):
        return False
    return word in _SIGNS or (_PLAIN.fullmatch(word) is not None and _COMMIT.search(word) is None)


def _quoted(word: str) -> str:
    """The word as code, but for the punctuation of the sentence around it."""
    before, core, after = _AROUND.fullmatch(word).groups()  # type: ignore[union-attr] # it matches any word
    return f"{before}{code(core)}{after}" if core else code(word)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
