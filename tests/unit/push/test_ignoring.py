"""Folders are left out as git leaves them out."""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from convmemory.push.ignoring import is_ignored, parse_patterns

NAMES = ["a", "b", "ab", "a b", "a-b", "A", "b]", "#a", "!a", "a*", "x.y", "abab", "[", "\\a", "a "]
PIECES = [
    *("a", "b", "ab", "x", "-", " ", "!", "#", "/", "/", "*", "**", "***", "?"),
    *(
        "\\a",
        "\\ ",
        "\\",
        "[",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-c]",
        "[]a]",
        "[[:upper:]]",
        "[a-]",
        "[b-a]",
        "[\\]a]",
        "[!]]",
    ),
]
FOLDERS, FILES = 60, 150


def is_out(folder: str, text: str) -> bool:
    """Return whether the folder, or one above it, is left out."""
    parts, patterns = folder.split("/"), parse_patterns(text)
    return any(is_ignored(parts[: end + 1], patterns) for end in range(len(parts)))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_random_patterns_leave_out_what_git_leaves_out(tmp_path: Path) -> None:
    rng = random.Random(52)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folders = sorted({"/".join(rng.choices(NAMES, k=rng.randint(1, 4))) for _ in range(FOLDERS)})
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    left_out = 0
    for _ in range(FILES):
        lines = ["".join(rng.choices(PIECES, k=rng.randint(1, 6))) for _ in range(rng.randint(1, 3))]
        if any("[" in line.partition("/")[0] and "/" in line for line in lines) or "\\/" in "\n".join(lines):
            continue  # git lets a set contain a slash, which no name of a folder has
        text = rng.choice(["\n", "\r\n"]).join([*lines, ""])
        (tmp_path / ".gitignore").write_bytes(text.encode())
        command = [
            "git",
            "-C",
            str(tmp_path),
            "-c",
            "core.ignorecase=false",
            "check-ignore",
            "--no-index",
            "-z",
            "--stdin",
        ]
        done = subprocess.run(command, input="\0".join(folders), capture_output=True, text=True, check=False)
        ignored = {folder for folder in folders if is_out(folder, text)}
        assert ignored == set(filter(None, done.stdout.split("\0"))), text
        left_out += len(ignored)
    assert left_out > FILES


@pytest.mark.parametrize(
    ("text", "out", "kept"),
    [
        ("secret\n", ["secret", "a/secret", "a/secret/b"], ["secrets", "a"]),
        ("/secret\n", ["secret/a"], ["a/secret"]),
        ("a/secret/\n", ["a/secret"], ["secret", "b/a/secret"]),
        ("client-*\n!client-open\n", ["client-x"], ["client-open"]),
        ("/*\n!/open\n", ["x", "x/open"], ["open", "open/x"]),
        ("**/private\na/**/z\nb/**\n", ["x/y/private", "a/z", "a/b/c/z", "b/c"], ["a", "b"]),
        ("# nothing\n\n\\#a\nspace \nkept\\ \n", ["#a", "space", "kept "], ["nothing", "kept"]),
        ("\ufeff[a-c]?\r\n", ["a1"], ["d1", "a"]),
    ],
)
def test_patterns_are_those_of_gitignore(text: str, out: list[str], kept: list[str]) -> None:
    assert [is_out(folder, text) for folder in (*out, *kept)] == [True] * len(out) + [False] * len(kept)


def test_many_stars_are_matched_in_linear_time() -> None:
    name = "a" * 255
    started = time.perf_counter()
    for pattern in ("*a" * 120 + "b", "[a-z]*" * 40 + "!", "**/" * 80 + "b"):
        assert not is_out("/".join([name] * 15), f"{pattern}\n")
    assert time.perf_counter() - started < 2
