"""Check prose and names against the rules in CONTRIBUTING.md.

`python .ci/prose.py` reads docstrings and comments in all Python files but migrations, in the product's also sentences
and names, and templates, style sheets, scripts and SQL whole. If a rule is broken more often than LIMITS allow, it
prints each place with a better wording and exits with 1. `python .ci/prose.py FILE...` reads these files and allows
nothing.
"""

import ast
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.prose import LEXER  # noqa: E402

SKIPPED_FOLDERS = frozenset({".venv", "migrations", "node_modules", "var"})

SUFFIXES = frozenset({".py", ".html", ".js", ".css", ".sql"})
SKIPPED_PATHS = re.compile(r"tests/.*(?<!\.py)|.*/vendor/.*")

# Allowed occurrences per 10,000 words of prose, for "names" per 10,000 names bound outside of tests. The first, third
# and sixth values are the highest among twelve comparable projects (httpx, procrastinate, datasette and others).
LIMITS = {
    "beside": 0.2,
    "persons": 0.0,
    "openings": 4.6,
    "phrases": 0.0,
    "test names": 0.0,
    "names": 6.0,
    "banners": 0.0,
}

OPENING = r"(?:What|Whether|Who|Whose|How|Which|Where|Those)\b"
VERB_PHRASE = "begin with a verb phrase that says what is done or returned: 'Return ...', 'Store ...'"
THING = "name the thing: hits, row, conversation, text, errors, position, path"
SUBJECT = "a file is one subject: leave the line out, or split the file"
NEXT_LINE = "a comment belongs to the line below it: move it there, or leave it out"
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
VAGUE_NAMES = frozenset({"found", "said", "place", "held", "known", "wanted", "given", "own"})
BANNER = re.compile(r"^\s*(?:#|//|/\*|--)\s*[-=]{3,}", re.MULTILINE)


class Finding(NamedTuple):
    """A place that breaks a rule."""

    rule: str
    line: int
    words: str
    advice: str


class Text(NamedTuple):
    """A docstring, a block of comments or a sentence in code, with the number of its first line."""

    line: int
    content: str
    is_docstring: bool


@lru_cache(maxsize=1)
def nodes_of(source: str) -> Mapping[type[ast.AST], list[Any]]:
    """Return all nodes of a file's syntax tree by their type; the last file's are kept for the next check of it."""
    nodes = defaultdict(list)
    for node in ast.walk(ast.parse(source)):
        nodes[type(node)].append(node)
    return nodes


def docstrings(source: str) -> Iterator[Text]:
    """Yield the docstrings of a module, its classes and its functions."""
    nodes = nodes_of(source)
    for node in chain(nodes[ast.Module], nodes[ast.ClassDef], nodes[ast.FunctionDef], nodes[ast.AsyncFunctionDef]):
        docstring = ast.get_docstring(node, clean=False)
        if docstring is not None:
            yield Text(node.body[0].lineno, docstring, is_docstring=True)


def sentences(source: str) -> Iterator[Text]:
    """Yield the strings of several words that are no docstrings."""
    documented = {text.line for text in docstrings(source)}
    for node in nodes_of(source)[ast.Constant]:
        if isinstance(node.value, str) and " " in node.value and node.lineno not in documented:
            yield Text(node.lineno, node.value, is_docstring=False)


def comments(source: str) -> Iterator[Text]:
    """Yield the comments; those in lines that follow each other are one text, so that a phrase may span lines."""
    block: list[str] = []
    first, line, end = 0, 1, 0
    for match in LEXER.finditer(source) if "#" in source else ():
        if match.lastgroup == "comment":
            line, end = line + source.count("\n", end, match.start()), match.start()
            if block and line != first + len(block):
                yield Text(first, "\n".join(block), is_docstring=False)
                block = []
            first = first if block else line
            block.append(match[0].lstrip("#"))
    if block:
        yield Text(first, "\n".join(block), is_docstring=False)


def findings_in_text(text: Text) -> Iterator[Finding]:
    """Yield the findings of a text; quoted code (`...`) may contain any word."""
    content = CODE.sub(lambda code: " " * len(code[0]), text.content)
    opening = re.match(rf"\s*({OPENING})", content)
    if text.is_docstring and opening:
        yield Finding("openings", text.line + content[: opening.start(1)].count("\n"), opening[1], VERB_PHRASE)
    for rule, pattern, advice in PATTERNS:
        for match in pattern.finditer(content):
            line = text.line + content[: match.start()].count("\n")
            yield Finding(rule, line, " ".join(match[0].split()), advice)


def findings_in_test_names(source: str) -> Iterator[Finding]:
    """Yield the functions called test_* whose names open like a riddle or contain a word of VOCABULARY."""
    nodes = nodes_of(source)
    for node in chain(nodes[ast.FunctionDef], nodes[ast.AsyncFunctionDef]):
        if node.name.startswith("test_"):
            name = node.name.removeprefix("test_").replace("_", " ")
            if re.match(OPENING, name, re.IGNORECASE) or any(pattern.search(name) for _, pattern, _ in PATTERNS):
                yield Finding("test names", node.lineno, node.name, TEST_NAME)


def bound_names(source: str) -> Iterator[tuple[str, int]]:
    """Yield the names of variables, arguments, attributes, functions and classes where they are bound, with lines."""
    nodes = nodes_of(source)
    yield from ((node.id, node.lineno) for node in nodes[ast.Name] if isinstance(node.ctx, ast.Store))
    yield from ((node.attr, node.lineno) for node in nodes[ast.Attribute] if isinstance(node.ctx, ast.Store))
    yield from ((node.arg, node.lineno) for node in nodes[ast.arg])
    for node in chain(nodes[ast.FunctionDef], nodes[ast.AsyncFunctionDef], nodes[ast.ClassDef]):
        yield node.name, node.lineno


def check_product(source: str) -> tuple[int, list[Finding]]:
    """Return the number of names that a Python file binds, and the findings in names and in sentences."""
    names = list(bound_names(source))
    findings = [Finding("names", line, name, THING) for name, line in names if name in VAGUE_NAMES]
    return len(names), findings + [finding for text in sentences(source) for finding in findings_in_text(text)]


def check(source: str) -> tuple[int, list[Finding]]:
    """Return the number of words of prose in a Python file, and its findings by line."""
    blocks = list(comments(source))
    texts = [*docstrings(source), *blocks]
    findings = [finding for text in texts for finding in findings_in_text(text)]
    findings += [*findings_in_test_names(source), *banners(source), *loose_comments(source, blocks)]
    return sum(len(text.content.split()) for text in texts), sorted(findings, key=lambda finding: finding.line)


def check_whole(source: str) -> list[Finding]:
    """Return the findings in a template, a style sheet, a script or SQL."""
    return [*findings_in_text(Text(1, source, is_docstring=False)), *banners(source)]


def banners(source: str) -> Iterator[Finding]:
    for match in BANNER.finditer(source):
        yield Finding("banners", source.count("\n", 0, match.end()) + 1, match[0].strip(), SUBJECT)


def loose_comments(source: str, blocks: Sequence[Text]) -> Iterator[Finding]:
    """Yield a module's comments with an empty line before the next statement: titles of sections without the dashes."""
    lines = source.rstrip().split("\n")
    for block in blocks:
        last = block.line - 1 + block.content.count("\n")
        is_title = lines[block.line - 1].startswith("#") and lines[last].startswith("#") and block.line > 1
        if is_title and not lines[min(last + 1, len(lines) - 1)]:
            yield Finding("banners", block.line, block.content.strip().split("\n")[0], NEXT_LINE)


def exceeded(counts: Mapping[str, int], words: int, names: int) -> list[str]:
    """Return the rules that are broken more often than LIMITS allow."""
    sizes = {rule: names if rule == "names" else words for rule in LIMITS}
    return [rule for rule, limit in LIMITS.items() if counts[rule] > limit * sizes[rule] / 10_000]


def source_files(root: Path) -> list[Path]:
    """Return the files to read below a folder, without hidden folders (.ci excepted) and SKIPPED_FOLDERS."""
    paths = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [
            name for name in subfolders if name not in SKIPPED_FOLDERS and (name == ".ci" or not name.startswith("."))
        ]
        paths += [Path(folder, name) for name in names if Path(name).suffix in SUFFIXES]
    return sorted(path for path in paths if not SKIPPED_PATHS.fullmatch(path.relative_to(root).as_posix()))


def main(arguments: Sequence[str]) -> int:
    """Print the findings of the rules that are broken too often, and return the exit code."""
    words = names = 0
    findings: list[tuple[Path, Finding]] = []
    for path in [Path(name) for name in arguments] or source_files(ROOT):
        source = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            words_here, in_file = check(source)
            is_product = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] not in ("tests", ".ci")
            names_here, in_product = check_product(source) if is_product else (0, [])
            words, names, in_file = words + words_here, names + names_here, in_file + in_product
        else:
            in_file = check_whole(source)
        findings += [(path, finding) for finding in in_file]
    counts = Counter(finding.rule for _, finding in findings)
    broken = [rule for rule in LIMITS if counts[rule]] if arguments else exceeded(counts, words, names)
    for path, finding in findings:
        if finding.rule in broken:
            print(f"{os.path.relpath(path)}:{finding.line}: {finding.words!r}: {finding.advice}")
    for rule in broken:
        allowed = 0.0 if arguments else LIMITS[rule]
        print(f"{rule}: {counts[rule]} in {words} words and {names} names; allowed in 10,000: {allowed}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
