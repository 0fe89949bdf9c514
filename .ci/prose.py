"""Check the prose of docstrings, comments and test names against the rules in CONTRIBUTING.md.

`python .ci/prose.py` reads all Python files but migrations. If a rule is broken more often than LIMITS allow, it prints
each place with a better wording and exits with 1. `python .ci/prose.py FILE...` reads these files and allows nothing.
"""

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SKIPPED_FOLDERS = frozenset({".venv", "migrations", "node_modules", "var"})

# Allowed occurrences per 10,000 words of docstrings and comments. The first and third values are the highest among
# twelve comparable projects (httpx, procrastinate, datasette and others).
LIMITS = {"beside": 0.2, "persons": 0.0, "openings": 4.6, "phrases": 0.0, "test names": 0.0}

OPENING = r"(?:What|Whether|Who|Whose|How|Which|Where|Those)\b"
VERB_PHRASE = "begin with a verb phrase that says what is done or returned: 'Return ...', 'Store ...'"
TEST_NAME = "name subject, condition and result: test_out_of_range_setting_names_allowed_range"
ACTOR = "name the actor: the user, the caller, the owner, another user, no user"

VOCABULARY = [  # rule, pattern, what to write instead
    ("beside", r"beside", "'next to', 'in addition to', 'compared with' or 'during'"),
    ("persons", r"(?:some|no|any)body(?:'s)?", ACTOR),
    ("persons", r"whoever", ACTOR),
    ("phrases", r"(?:for|as) whom", "say who acts: 'the owner that the task runs for', 'the database role'"),
    ("phrases", r"of theirs", "'their' or 'the owner's'"),
    ("phrases", r"made anew", "'recreated' or 'rebuilt'"),
    ("phrases", r"put right", "'repaired' or 'corrected'"),
    ("phrases", r"what is there", "name it: 'the existing rows', 'the stored text'"),
]
PATTERNS = [  # \s: a phrase may go on in the next line
    (rule, re.compile(r"\b" + words.replace(" ", r"\s+") + r"\b", re.IGNORECASE), advice)
    for rule, words, advice in VOCABULARY
]
CODE = re.compile(r"`[^`\n]*`")


class Finding(NamedTuple):
    """A place that breaks a rule."""

    rule: str
    line: int
    words: str
    advice: str


class Text(NamedTuple):
    """A docstring or a block of comments, with the number of its first line."""

    line: int
    content: str
    is_docstring: bool


def docstrings(tree: ast.AST) -> Iterator[Text]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield Text(node.body[0].lineno, docstring, is_docstring=True)


def comments(source: str) -> Iterator[Text]:
    """Yield the comments; those in lines that follow each other are one text, so that a phrase may span lines."""
    block: list[str] = []
    first = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline) if "#" in source else ():
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != first + len(block):
                yield Text(first, "\n".join(block), is_docstring=False)
                block = []
            first = first if block else token.start[0]
            block.append(token.string.lstrip("#"))
    if block:
        yield Text(first, "\n".join(block), is_docstring=False)


def findings_in_text(text: Text) -> Iterator[Finding]:
    """Yield the findings of a text; quoted code (`...`) may contain any word."""
    content = CODE.sub(lambda code: " " * len(code[0]), text.content)
    opening = re.match(rf"\s*({OPENING})", content)
    if text.is_docstring and opening:
        yield Finding("openings", text.line + content[: opening.start(1)].count("\n"), opening[1], VERB_PHRASE)
    for rule, pattern, advice in PATTERNS:
        for found in pattern.finditer(content):
            line = text.line + content[: found.start()].count("\n")
            yield Finding(rule, line, " ".join(found[0].split()), advice)


def findings_in_test_names(tree: ast.AST) -> Iterator[Finding]:
    """Yield the functions called test_* whose names open like a riddle or contain a word of VOCABULARY."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            name = node.name.removeprefix("test_").replace("_", " ")
            if re.match(OPENING, name, re.IGNORECASE) or any(pattern.search(name) for _, pattern, _ in PATTERNS):
                yield Finding("test names", node.lineno, node.name, TEST_NAME)


def check(source: str) -> tuple[int, list[Finding]]:
    """Return the number of words of prose in a source file, and its findings by line."""
    tree = ast.parse(source)
    texts = [*docstrings(tree), *comments(source)]
    findings = [finding for text in texts for finding in findings_in_text(text)] + list(findings_in_test_names(tree))
    return sum(len(text.content.split()) for text in texts), sorted(findings, key=lambda finding: finding.line)


def exceeded(counts: dict[str, int], words: int) -> list[str]:
    """Return the rules that are broken more often than LIMITS allow."""
    return [rule for rule, limit in LIMITS.items() if counts[rule] > limit * words / 10_000]


def python_files(root: Path) -> list[Path]:
    """Return all Python files below a folder, without hidden folders (.ci excepted) and SKIPPED_FOLDERS."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [
            name for name in subfolders if name not in SKIPPED_FOLDERS and (name == ".ci" or not name.startswith("."))
        ]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


def main(arguments: Sequence[str]) -> int:
    """Print the findings of the rules that are broken too often, and return the exit code."""
    files = [Path(name) for name in arguments] or python_files(ROOT)
    words = 0
    found: list[tuple[Path, Finding]] = []
    for path in files:
        more, findings = check(path.read_text(encoding="utf-8"))
        words += more
        found += [(path, finding) for finding in findings]
    counts = {rule: sum(finding.rule == rule for _, finding in found) for rule in LIMITS}
    broken = [rule for rule in LIMITS if counts[rule]] if arguments else exceeded(counts, words)
    for path, finding in found:
        if finding.rule in broken:
            print(f"{os.path.relpath(path)}:{finding.line}: {finding.words!r}: {finding.advice}")
    for rule in broken:
        limit = 0.0 if arguments else LIMITS[rule]
        print(
            f"{rule}: {counts[rule]}, or {counts[rule] / max(words, 1) * 10_000:.1f} per 10,000 words; allowed: {limit}"
        )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
