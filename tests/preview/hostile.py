"""Hostile texts, and reports that contain them."""

from __future__ import annotations

from typing import Any, get_args, get_origin

from gpu_preview.model import Model, Report
from hypothesis import strategies as st

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
