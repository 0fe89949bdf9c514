"""Prose about the code (docstrings, comments, documents), and the names that the code itself contains."""

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    ".ci", "benchmarks", "convmemory", "deploy", "docs", "memory", "search", "static", "summaries", "templates", "tests"
)  # fmt: skip
GENERATED = {"__pycache__"}
OF_CODE = {".conf", ".css", ".html", ".js", ".json", ".lock", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
LAYOUT = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT}
LARGEST_FILE = 1_000_000
ITS_TEST = "tests/architecture/test_names_in_prose.py"  # contains names that do not exist


@dataclass(frozen=True, slots=True)
class Prose:
    """A docstring, a comment or a document."""

    place: str
    text: str


@cache
def project_files() -> tuple[str, ...]:
    """Return the paths of all files of the project, relative to its folder."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        paths.extend(path for path in (ROOT / folder).rglob("*") if not GENERATED & set(path.parts) and path.is_file())
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in paths))


@cache
def path_tails() -> frozenset[str]:
    """Return every way to name a file or a folder of the project: its path, or the last parts of it."""
    tails: set[str] = set()
    for file in project_files():
        parts = file.split("/")
        for end in range(1, len(parts) + 1):
            tails.update("/".join(parts[start:end]) for start in range(end))
    return frozenset(tails)


def documents() -> list[str]:
    """Return the documents that describe the program as it is: neither its history nor decisions of the past."""
    return [
        file
        for file in project_files()
        if re.fullmatch(r"(?:docs/)?[^/]+\.md", file) and file != "CHANGELOG.md"
    ]  # fmt: skip


@cache
def _read() -> tuple[tuple[Prose, ...], str, str]:
    prose: list[Prose] = []
    texts: list[str] = []
    tested: list[str] = []
    for file in project_files():
        path = ROOT / file
        if file == ITS_TEST:
            continue
        if path.suffix == ".py" and "/migrations/" not in file:
            source = path.read_text(encoding="utf-8")
            prose.extend(_pieces(file, source, tested if file.startswith("tests/") else texts))
        elif path.suffix == ".sql":
            lines = path.read_text(encoding="utf-8").splitlines()
            prose.append(Prose(file, "\n".join(line for line in lines if line.startswith("--"))))
            texts.extend(line.partition("--")[0] for line in lines)
        elif path.suffix in OF_CODE and path.stat().st_size < LARGEST_FILE:
            texts.append(path.read_bytes().decode(errors="replace"))
    prose.extend(Prose(file, (ROOT / file).read_text(encoding="utf-8")) for file in documents())
    return tuple(prose), "\n".join(texts), "\n".join(tested)


def _pieces(file: str, source: str, texts: list[str]) -> Iterator[Prose]:
    """Yield the docstrings and comments of a module, and append its names and other strings to `texts`."""
    starts_line = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and starts_line):
            yield Prose(f"{file}:{token.start[0]}", token.string)
        elif token.type not in LAYOUT:
            texts.append(token.string)
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            starts_line = token.type in LAYOUT


def all_prose() -> tuple[Prose, ...]:
    return _read()[0]


def text_of_code() -> str:
    """Return the names and strings of the program, a line each, with its style sheets, templates and configuration."""
    return _read()[1]


def text_of_tests() -> str:
    """Return the names and strings of the tests, a line each."""
    return _read()[2]


@cache
def words_of_code() -> frozenset[str]:
    """Return every word of the program and of its strings, without docstrings and comments."""
    return frozenset(re.findall(r"\w+", text_of_code()))


@cache
def words_of_tests() -> frozenset[str]:
    """Return every word of the tests, without docstrings and comments."""
    return frozenset(re.findall(r"\w+", text_of_tests()))
