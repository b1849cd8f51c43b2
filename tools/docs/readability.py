"""Measures how readable the documentation, docstrings and comments are.

    python -m tools.docs.readability [--list] [PATH ...]

Prints one row for each area: the number of sentences, the average number of words in a sentence, the share of sentences
above 25 words, the number of expressions that are hard to read (HARD_EXPRESSIONS), and the number of docstrings that
begin with a question word. With --list, it also prints each of these places.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LONG = 25
"""A sentence with more words than this counts as long."""
HARD_EXPRESSIONS = re.compile(
    r"""\b(whoever|whomever|whatever\ it\ is|somebody(?:'s)?|nobody(?:'s)?|anybody(?:'s)?|stand-ins?|veil(?:s|ed)?
    |beside|is\ told|are\ told|told\ apart|lets\ go\ of|let\ go\ of|brings?\ up|brought\ up|came\ of|becomes?\ of
    |in\ the\ place\ of|that\ is\ none|that\ are\ none|is\ none|are\ none|looked\ through|moot|unfit|unasked|crew
    |as\ far\ as|of\ ours|of\ google's|of\ github's|of\ amazon's|stands\ in|no\ more\ of|is\ to\ be|are\ to\ be
    |ends\ with\ \d|ended\ with\ \d|what\ there\ is|there\ is\ to|mend(?:s|ed)?|shuts?\ out)\b""",
    re.VERBOSE | re.IGNORECASE,
)
QUESTION_WORDS = re.compile(r"(What|Whether|How|Who|Whose|Where|Which|That)\b(?!.*\?)")
"""First words of a docstring that is not a sentence."""
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'*]*\s+(?=[A-Z`\"'(\[*])")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx|no)\.", re.IGNORECASE)


class Text(NamedTuple):
    """One piece of prose."""

    path: str
    line: int
    text: str
    is_docstring: bool = False


class Finding(NamedTuple):
    """A sentence that is hard to read."""

    path: str
    line: int
    problem: str
    sentence: str


def pieces(path: Path) -> Iterator[Text]:
    """Yield all prose of a Markdown or Python file."""
    text = path.read_text(encoding="utf-8")
    yield from _markdown(str(path), text) if path.suffix == ".md" else _python(str(path), text)


def _markdown(path: str, text: str) -> Iterator[Text]:
    """Yield paragraphs and list items. Code, tables, headings, HTML and link definitions are not prose."""
    block: list[str] = []
    began, fenced = 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        fence = stripped.startswith(("```", "~~~"))
        ends = fence or not stripped or re.match(r"[-*+] |\d+\. |\||#|<|>|!\[|\[[^\]]+\]:|!!!|\?\?\?", stripped)
        if block and (ends or fenced):
            yield Text(path, began, " ".join(block))
            block = []
        fenced ^= fence
        if fenced or fence or not stripped or re.match(r"\||#|<|!\[|\[[^\]]+\]:|!!!|\?\?\?|---$", stripped):
            continue
        if not block:
            began = number
        block.append(re.sub(r"^([-*+]|\d+\.|>) +", "", stripped))


def _python(path: str, text: str) -> Iterator[Text]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number, paragraph in enumerate(re.split(r"\n\s*\n|\n\s*(?=[-*] )", node.value.value)):
                if "    " not in paragraph.strip().split("\n")[0]:
                    yield Text(path, node.lineno, " ".join(paragraph.split()), is_docstring=number == 0)
    block: list[str] = []
    began = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or re.match(r"# ?(noqa|type:|pragma|!|mypy|ruff)", token.string):
            continue
        line = token.start[0]
        if block and line != last + 1:
            yield Text(path, began, " ".join(block))
            block = []
        began = began if block else line
        block.append(token.string.lstrip("# ").strip())
        last = line
    if block:
        yield Text(path, began, " ".join(block))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return [each for each in _SENTENCE_END.split(_ABBREVIATIONS.sub(r"\1", text)) if re.search(r"\w", each)]


def words(sentence: str) -> int:
    """Return the number of words in a sentence. Code in backticks counts as one."""
    plain = re.sub(r"`[^`]*`", "code", sentence)
    return len(re.findall(r"[^\s]*\w[^\s]*", plain))


def area(path: str) -> str:
    """Return the area of a file, which is its row in the table."""
    first, *rest = path.split("/")
    return f"docs/{rest[0]}" if first == "docs" and rest[1:] else first if rest else "README etc."


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=["."])
    parser.add_argument("--list", action="store_true", help="print each long sentence and each listed expression")
    args = parser.parse_args()
    listed = subprocess.run(
        ["git", "ls-files", "--", *args.paths], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    lengths: dict[str, list[int]] = defaultdict(list)
    findings: dict[str, list[Finding]] = defaultdict(list)
    for path in (Path(each) for each in listed if each.endswith((".md", ".py"))):
        where = area(str(path))
        for piece in pieces(path):
            if piece.is_docstring and QUESTION_WORDS.match(piece.text):
                findings[where].append(Finding(piece.path, piece.line, "opening", sentences(piece.text)[0]))
            for sentence in sentences(piece.text):
                length = words(sentence)
                lengths[where].append(length)
                if length > LONG:
                    findings[where].append(Finding(piece.path, piece.line, f"{length} words", sentence))
                for match in HARD_EXPRESSIONS.finditer(re.sub(r"`[^`]*`", "", sentence)):
                    findings[where].append(Finding(piece.path, piece.line, match[0], sentence))
    if args.list:
        for each in (each for area_findings in findings.values() for each in area_findings):
            print(f"{each.path}:{each.line}: {each.problem}: {each.sentence[:160]}")
    print(f"{'area':<12} {'sentences':>9} {'average':>8} {'long %':>7} {'listed':>7} {'openings':>9}")
    if not lengths:
        parser.exit(1, "no Markdown or Python text in these paths\n")
    everything = [length for each in lengths.values() for length in each]
    rows = [(name, lengths[name], findings[name]) for name in sorted(lengths, key=lambda name: -len(lengths[name]))]
    for name, counted, found in [*rows, ("all", everything, [each for some in findings.values() for each in some])]:
        openings = sum(each.problem == "opening" for each in found)
        expressions = sum(not each.problem.endswith(" words") for each in found) - openings
        share = 100 * sum(length > LONG for length in counted) / len(counted)
        average = sum(counted) / len(counted)
        print(f"{name:<12} {len(counted):>9} {average:>8.1f} {share:>7.1f} {expressions:>7} {openings:>9}")


if __name__ == "__main__":
    main()
