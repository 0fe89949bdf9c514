"""Prose about the code (docstrings, comments, documents), and the names that the code itself contains."""

import re
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
LEXER = re.compile(
    r"(?P<comment>#[^\n]*)|(?P<bracket>[()\[\]{}])"
    r"|(?P<string>(?:\b[bfruBFRU]{1,2})?(?:"
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|'[^'\\\n]*(?:\\.[^'\\\n]*)*'))",
    re.DOTALL,
)
"""Finds comments, strings and brackets in code of Python 3.11, in a fifth of the time of the module `tokenize`."""
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
    """Yield the docstrings and comments of a module, and append what is between them to `texts`."""
    depth, line, end = 0, 1, 0
    for match in LEXER.finditer(source):
        start, kind = match.start(), match.lastgroup
        if kind == "bracket":
            depth += 1 if match[0] in "([{" else -1
        elif kind == "comment" or (depth == 0 and not source[source.rfind("\n", 0, start) + 1 : start].strip()):
            line += source.count("\n", end, start)
            texts.append(source[end:start])
            yield Prose(f"{file}:{line}", match[0])
            line, end = line + match[0].count("\n"), match.end()
    texts.append(source[end:])


def all_prose() -> tuple[Prose, ...]:
    return _read()[0]


def text_of_code() -> str:
    """Return the code of the program without its prose, with its style sheets, templates and configuration."""
    return _read()[1]


def text_of_tests() -> str:
    """Return the code of the tests without its prose."""
    return _read()[2]


@cache
def words_of_code() -> frozenset[str]:
    """Return every word of the program and of its strings, without docstrings and comments."""
    return frozenset(re.findall(r"\w+", text_of_code()))


@cache
def words_of_tests() -> frozenset[str]:
    """Return every word of the tests, without docstrings and comments."""
    return frozenset(re.findall(r"\w+", text_of_tests()))
