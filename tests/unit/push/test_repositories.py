"""The repository of a folder: its identity from remotes and commits, worktrees, and the spellings of one folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from convmemory.push import repositories
from convmemory.push.repositories import (
    Repository,
    among,
    folder_key,
    folders_as_text,
    folders_of_text,
    identity_of,
    parted,
    repository_of,
    spelled,
)


def git(folder: Path, *arguments: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *named, *arguments], cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def committed(folder: Path) -> Path:
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "-m", "one")
    return folder


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/Ada/Barn.git",
        "https://ada:token@GitHub.com:443/ada/barn/",
        "git@github.com:ada/barn.git",
        "github.com:ada/barn",
        "ssh://git@github.com:22/ada/barn",
        "ssh://git@ssh.github.com:443/ada/barn.git",
        "git://www.github.com/ada/barn?x=1#y",
        "github.com/ada/barn",
    ],
)
def test_spellings_of_one_remote_are_one_identity(remote: str) -> None:
    assert identity_of(remote) == "github.com/ada/barn"


@pytest.mark.parametrize(
    ("remote", "identity"),
    [
        ("https://git.example.org/Ada/Barn.git", "git.example.org/Ada/Barn"),
        ("git@ssh.dev.azure.com:v3/farm/Barn/roof", "dev.azure.com/farm/barn/roof"),
        ("https://farm@dev.azure.com/farm/barn/_git/roof", "dev.azure.com/farm/barn/roof"),
        ("git@work:ada/barn.git", "work/ada/barn"),
        ("ssh://[::1", ""),
        ("/srv/git/barn.git", ""),
        ("../barn.git", ""),
        ("file:///srv/git/barn", ""),
        (r"C:\\git\\barn", ""),
        ("https://github.com/", ""),
        ("https://github.com/ada/ba\x00rn", ""),
        ("root:" + "a" * 40, "root:" + "a" * 40),
        ("x" * 10_000, ""),
        ("", ""),
    ],
)
def test_other_remotes_keep_case_and_folders_have_none(remote: str, identity: str) -> None:
    assert identity_of(remote) == identity


def test_sub_folder_and_worktree_are_of_repository_without_starting_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    barn = committed(tmp_path / "work" / "barn")
    git(barn, "worktree", "add", "../roof")
    root_commit = git(barn, "rev-list", "--max-parents=0", "HEAD")
    monkeypatch.setattr(repositories, "_root_by_git", lambda *_: pytest.fail("git was started"))
    by_commit = Repository(f"root:{root_commit}", str(barn))
    assert repository_of(str(barn / "deep" / "gone"), home=tmp_path) == by_commit
    git(barn, "remote", "add", "upstream", "git@github.com:bob/barn.git")
    git(barn, "remote", "add", "origin", "https://github.com/ada/barn.git")
    (tmp_path / "work" / "roof" / "deep").mkdir()
    assert repository_of(f"{barn}/", home=tmp_path) == Repository("github.com/ada/barn", str(barn))
    roof = Repository("github.com/ada/barn", str(tmp_path / "work" / "roof"), main=str(barn))
    assert repository_of(str(tmp_path / "work" / "roof" / "deep"), home=tmp_path) == roof
    assert repository_of(str(tmp_path / "work"), home=tmp_path) is None
    assert repository_of("work/barn", home=tmp_path) is None


def test_packed_root_commit_is_read_by_git_and_shallow_clone_has_none(tmp_path: Path) -> None:
    barn = committed(tmp_path / "barn")
    first = git(barn, "rev-parse", "HEAD")
    git(barn, "commit", "--allow-empty", "-m", "two")
    git(barn, "gc", "--prune=now")
    assert repository_of(str(barn), home=tmp_path) == Repository(f"root:{first}", str(barn))
    git(tmp_path, "clone", "--depth", "1", f"file://{barn}", "shallow")
    assert repository_of(str(tmp_path / "shallow"), home=tmp_path) == Repository("", str(tmp_path / "shallow"))


def test_repository_of_home_folder_is_of_no_folder_below(tmp_path: Path) -> None:
    committed(tmp_path)
    (tmp_path / "work").mkdir()
    assert repository_of(str(tmp_path / "work"), home=tmp_path) is None
    assert repository_of(str(tmp_path), home=tmp_path)


def test_damaged_git_folder_names_no_repository(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".git").write_text("gitdir: /gone/\x00")
    (tmp_path / "b" / ".git").mkdir(parents=True)
    (tmp_path / "b" / ".git" / "HEAD").write_bytes(b"ref: ../../../etc/passwd")
    (tmp_path / "b" / ".git" / "config").write_bytes(b"[remote \xff\n url = [")
    for name in ("a", "b"):
        assert getattr(repository_of(str(tmp_path / name), home=tmp_path), "identity", "") == ""


def test_sent_folders_are_read_again_and_innermost_root_wins(tmp_path: Path) -> None:
    barn = committed(tmp_path / "barn")
    git(barn, "remote", "add", "origin", "https://github.com/ada/barn.git")
    sent = folders_of_text(folders_as_text([str(barn / "deep"), "/gone", ""], tmp_path))
    assert sent == {str(barn / "deep"): Repository("github.com/ada/barn", str(barn))}
    inner = {**sent, "x": Repository("github.com/ada/roof", f"{barn}/roof")}
    assert [getattr(among(inner, f"{barn}{below}"), "identity", None) for below in ("", "/roof/x", "s")] == [
        "github.com/ada/barn", "github.com/ada/roof", None,
    ]  # fmt: skip
    for text in ("", "[]", '{"a": 1}', '{"a": {"identity": 5, "root": []}}', "[" * 100_000):
        assert all(not each.identity for each in folders_of_text(text).values())


def test_spellings_of_windows_folder_are_one() -> None:
    written = ["C:\\Users\\kay\\x", "C:/Users/kay/x/", "c:\\Users\\kay\\x", "/mnt/c/Users/kay/x", "/c/Users/kay/x"]
    assert {spelled(folder) for folder in written} == {"C:/Users/kay/x"}
    assert {folder_key(folder) for folder in [*written, "/mnt/c/users/kay/x"]} == {"c:/users/kay/x"}
    assert [spelled(folder) for folder in ("/mnt/disk/x/", "/srv/Barn", "", "/", "Bread")] == [
        "/mnt/disk/x", "/srv/Barn", "", "/", "Bread",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("directory", "project", "worktree"),
    [
        ("/home/ada/barn", "/home/ada/barn", ""),
        ("/home/ada/barn/.worktrees/roof", "/home/ada/barn", "/home/ada/barn/.worktrees/roof"),
        ("/home/ada/barn/.worktrees/roof/src", "/home/ada/barn", "/home/ada/barn/.worktrees/roof"),
        ("/home/ada/barn/.claude/worktrees/x", "/home/ada/barn", "/home/ada/barn/.claude/worktrees/x"),
        (r"D:\barn\.worktrees\1", r"D:\barn", r"D:\barn\.worktrees\1"),
        ("/home/ada/barn/.worktrees", "/home/ada/barn/.worktrees", ""),
        ("/.worktrees/a", "/.worktrees/a", ""),
        ("", "", ""),
    ],
)
def test_worktree_belongs_to_its_repository(directory: str, project: str, worktree: str) -> None:
    assert parted(directory) == (project, worktree)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_git_folder_that_is_a_link_is_followed(tmp_path: Path) -> None:
    barn = committed(tmp_path / "barn")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").symlink_to(barn / ".git")
    assert getattr(repository_of(str(tmp_path / "other"), home=tmp_path), "identity", "").startswith("root:")
