"""Renders a comment as GitHub does, and finds everything in it that does more than show text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt

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
