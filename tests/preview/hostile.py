"""Hostile texts, and reports that contain them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any, get_args, get_origin

from gpu_preview.model import Model, Report
from hypothesis import strategies as st
from markdown_it import MarkdownIt

FRAGMENTS = (
    "@octocat", "@org/team", "#1", "GH-1", "octo/repo#1", "595024d8fab1c2d3e4f5a6b7c8d9e0f1a2b3c4d5", "deadbeef",
    "https://example.com", "http://a.b/?c=d", "www.example.com", "mail@example.com", "mailto:a@b.c", "example.com",
    "[link](https://example.com)", "![image](https://example.com/x.png)", "[ref]", "[ref]: https://example.com",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<a href=x>", "</details>", "</summary>", "<b>",
    "&lt;",
    "&#64;octocat", "<!-- gpu-ci-preview -->", "-->", "<!--", "]]>", "<https://example.com>", "<!DOCTYPE html>",
    "`", "``", "```", "```diff", "~~~", "\n```\n", "\n# heading\n", "# heading", "heading\n===", "\n---\n", "***",
    "*a*", "**a**", "_a_", "~~a~~", "$a$", "$`a`$", ":smile:", "- [ ] task", "1. one", "2)", "> quote", "    code",
    "|", "\\|", "\\", "| a | b |", "|---|", "\\`", "\\*", "[!CAUTION]", "[^1]", "[^1]: note", "::error::x",
    "##[error]x",
    "\x1b[31m", "\x00", "\r", "\n", "\n\n", "\t", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\x85", "\u00a0",
    "\U000e0041", "\ufe0f", "é", "名前", "😀", " ", "  ", "a", "word", "2.5",
)  # fmt: skip

texts = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=6).map(" ".join),
    st.text(max_size=40),
)


def of(model: type[Model]) -> st.SearchStrategy[Any]:
    """Generate instances of a model of the report, with only hostile texts."""
    fields = {
        name: st.integers(1, 2_000_000) if "line" in name and field.annotation is int else _value(field.annotation)
        for name, field in model.model_fields.items()
    }
    return st.fixed_dictionaries(fields).map(lambda given: model(**given))


def _value(kind: Any) -> st.SearchStrategy[Any]:
    if kind is str:
        return texts
    if kind is int:
        return st.integers(0, 2_000_000)
    if kind is float:
        return st.floats(0, 1e9)
    if get_origin(kind) is tuple:
        return st.lists(_value(get_args(kind)[0]), max_size=2).map(tuple)
    if isinstance(kind, type) and issubclass(kind, Model):
        return of(kind)
    if type(None) in get_args(kind):
        return st.none() | _value(next(each for each in get_args(kind) if each is not type(None)))
    return st.from_type(kind)


reports = of(Report)


def everywhere(text: str) -> Report:
    """Return a report on one stack in which every text is this text."""

    def fill(kind: Any) -> Any:
        if kind is str:
            return text
        if get_origin(kind) is tuple:
            return (fill(get_args(kind)[0]),)
        if isinstance(kind, type) and issubclass(kind, Model):
            return kind(**{name: fill(field.annotation) for name, field in kind.model_fields.items()})
        if type(None) in get_args(kind):
            return fill(next(each for each in get_args(kind) if each is not type(None)))
        values = {int: 1, float: 1.0, bool: True}
        return values[kind] if kind in values else next(iter(get_args(kind) or kind))

    made: Report = fill(Report)
    return made


# GitHub Flavored Markdown with its tables, strikethrough and links of bare addresses; HTML goes through.
_MARKDOWN = MarkdownIt("gfm-like")
# The parts of a comment that the renderer makes; every other, and every other attribute, is the program's doing.
TAGS = {"p", "strong", "em", "code", "pre", "ul", "li", "blockquote", "hr", "br", "details", "summary"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {
    ("code", "class", "language-diff"),
    ("code", "class", "language-text"),
    ("code", "class", "language-mermaid"),
    ("td", "style"),
    ("th", "style"),
}
# What GitHub looks for in the text that came out, outside code: mentions, issues, commits, addresses, emoji, formulas.
LOOKED_FOR = re.compile(r"@|#\d|\bGH-\d|://|\bwww\.|\b[0-9a-f]{7,40}\b|:[a-z0-9_+-]+:|\$|\[\^", re.IGNORECASE)


class Comment(HTMLParser):
    """A comment as GitHub would show it."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.comments: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(_MARKDOWN.render(markdown))
        self.close()
        self.faults += [f"never closed: {tag}" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.faults.append(f"tag: {tag}")
        for name, value in attrs:
            if not {(tag, name), (tag, name, value)} & ATTRIBUTES:
                self.faults.append(f"attribute: {tag} {name}={value}")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"closed out of order: {tag}")

    def handle_data(self, data: str) -> None:
        self.text += data
        if not {"code", "pre"} & set(self._open) and (found := LOOKED_FOR.search(data)):
            self.faults.append(f"GitHub would act on {found.group()!r} in {data!r}")

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_decl(self, decl: str) -> None:
        self.faults.append(f"declaration: {decl}")

    def unknown_decl(self, data: str) -> None:
        self.faults.append(f"declaration: {data}")

    def handle_pi(self, data: str) -> None:
        self.faults.append(f"instruction: {data}")
