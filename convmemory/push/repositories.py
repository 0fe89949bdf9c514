"""The repository of a folder, by which several folders and machines are one project: read from `.git`.

Its identity is its normalised remote, `github.com/ada/barn`, else its root commit, `root:<hash>`. Git itself runs only
for a root commit in a pack. The server normalises what transcripts say with the same functions.
"""

import json
import os
import re
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

FOLDERS_FILE = "convmemory-folders"
"""Name of the file in a sent archive that says which folders are of which repository."""

MAX_IDENTITY_CHARS = 300
MAX_FILE_BYTES = 4 * 1024**2
MAX_STEPS = 2_000  # commits that are read one by one, before Git is started
GIT_S = 5.0
ROOT = "root:"
# Hosts that take a path in any case. The second name is for SSH behind firewalls.
_CASELESS = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "dev.azure.com")
_OTHER_NAMES = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
    "ssh.dev.azure.com": "dev.azure.com",
}
_SCP = re.compile(r"(?:[^@/\\\s]{1,200}@)?([^:@/\\\s]{2,200}):(?!//)(.{1,1000})")
_NORMALISED = re.compile(r"[^:@/\\\s]{1,200}\.[^:@/\\\s]{1,200}/[^\\\s]{1,300}")
_ROOT_COMMIT = re.compile(r"root:(?:[0-9a-f]{40}|[0-9a-f]{64})")
_SECTION = re.compile(r'\[remote "([^"]{1,200})"\]')
MAX_PATH_CHARS = 4_000  # Linux has no longer paths
_WORKTREE = re.compile(r"[/\\](?:\.claude[/\\]worktrees|\.worktrees)[/\\][^/\\]+")
_DRIVE = re.compile(r"([A-Za-z]):[\\/]")
_MOUNTED = re.compile(r"(?:/mnt)?/([a-zA-Z])/")
_OF_WINDOWS = re.compile(r"(?:/mnt)?/([a-zA-Z])/(?=Users/)")


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository of a folder: identity, or an empty string; root; and of a linked worktree the main one's root."""

    identity: str
    root: str
    main: str = ""


def spelled(folder: str) -> str:
    r"""Return the one spelling of a Windows folder, `C:/x` for `C:\x`, also of a user's folder in WSL; others as is."""
    if match := _DRIVE.match(folder) or _OF_WINDOWS.match(folder):
        folder = f"{match[1].upper()}:/{folder[match.end() :]}".replace("\\", "/")
    return folder.rstrip("/\\") or folder[:1]


def folder_key(folder: str) -> str:
    """Return what all spellings of a folder have in common: Windows ignores case, and mounts its drives in WSL."""
    folder = spelled(folder)
    if match := _MOUNTED.match(folder):
        folder = f"{match[1]}:/{folder[match.end() :]}"
    return folder.casefold() if _DRIVE.match(folder) else folder


def parted(folder: str) -> tuple[str, str]:
    """Return the folder and an empty string; for `REPOSITORY/.worktrees/NAME` and `REPOSITORY/.claude/worktrees/NAME`,
    and what is below, the repository and the worktree. Only the text is used: the folder may be on another machine.
    """
    match = _WORKTREE.search(folder) if len(folder) <= MAX_PATH_CHARS else None
    return (folder[: match.start()], folder[: match.end()]) if match and match.start() else (folder, "")


def identity_of(remote: str) -> str:
    """Return the identity of a remote's address, or of an identity; an empty string for a folder or anything else.

    Protocol, user, port and `.git` are left out; the path is in the case that its host tells apart.
    """
    remote = remote.strip()
    if _ROOT_COMMIT.fullmatch(remote):
        return remote
    if "://" in remote:
        try:
            address = urlsplit(remote)
            host, path = address.hostname or "", address.path
        except ValueError:
            return ""
        if address.scheme == "file":
            return ""
    elif match := _SCP.fullmatch(remote):
        host, path = match[1], match[2]
    elif _NORMALISED.fullmatch(remote) and remote[0] not in ".~":
        host, _, path = remote.partition("/")
    else:
        return ""
    host = host.lower().rstrip(".").removeprefix("www.")
    host = _OTHER_NAMES.get(host, host)
    parts = [part for part in unquote(path).split("/") if part not in ("", ".", "..")]
    if host == "dev.azure.com":
        parts = [part for part in parts if part not in ("v3", "_git")]
    if parts:
        parts[-1] = parts[-1].removesuffix(".git")
    path = "/".join(filter(None, parts))
    identity = f"{host}/{path.lower() if host in _CASELESS else path}"
    if not host or not path or len(identity) > MAX_IDENTITY_CHARS or not identity.isprintable():
        return ""
    return identity


def repository_of(folder: str, *, home: Path | None = None, git_s: float = GIT_S) -> Repository | None:
    """Return the repository that the folder is in; None without one. Reads files; never raises OSError.

    That of the home folder, of people who keep their settings in Git, is of no folder below it.
    """
    if not os.path.isabs(folder):
        return None
    start = Path(os.path.normpath(folder))
    try:
        for each in (start, *start.parents):
            git = _git_folder(each)
            if git is not None:
                if each == (home or Path.home()) and each != start:
                    return None
                return _read(each, git, git_s)
    except (OSError, ValueError):
        return None
    return None


def folders_as_text(folders: Iterable[str], home: Path) -> str:
    """Return the content of `FOLDERS_FILE` for these folders; an empty string if none is in a repository."""
    read = ((folder, repository_of(folder, home=home)) for folder in sorted(set(folders)))
    value = {folder: asdict(repository) for folder, repository in read if repository}
    return json.dumps(value, indent=1, sort_keys=True) if value else ""


def folders_of_text(text: str) -> dict[str, Repository]:
    """Return the repositories by folder in a `FOLDERS_FILE`, which may contain anything."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    entries = value.items() if isinstance(value, dict) else ()
    return {
        folder: Repository(identity_of(_of(about, "identity")), _of(about, "root"), _of(about, "main"))
        for folder, about in entries
        if isinstance(about, dict)
    }


def _of(about: Mapping[str, Any], name: str) -> str:
    value = about.get(name)
    return value if isinstance(value, str) else ""


def among(folders: Mapping[str, Repository], folder: str) -> Repository | None:
    """Return the repository of a folder, or of the innermost root around it."""
    if folder in folders:
        return folders[folder]
    around = [each for each in folders.values() if each.root and is_in(folder_key(folder), folder_key(each.root))]
    return max(around, key=lambda each: len(each.root), default=None)


def is_in(key: str, root: str) -> bool:
    """Return whether a folder is a root or below it, both as `folder_key` writes them."""
    return key == root or key.startswith(f"{root.rstrip('/')}/")


def _git_folder(folder: Path) -> Path | None:
    """Return where Git keeps a work tree: `.git`, or what the file of this name says."""
    path = folder / ".git"
    if path.is_dir():
        return path if (path / "HEAD").exists() else None
    if path.is_file():
        text = _text(path)
        if text.startswith("gitdir:"):
            return Path(os.path.normpath(folder / text.removeprefix("gitdir:").strip()))
    return None


def _read(root: Path, git: Path, git_s: float) -> Repository:
    shared = _text(git / "commondir").strip()
    common = Path(os.path.normpath(git / shared)) if shared else git
    main = str(common.parent) if shared and common.name == ".git" and common.parent != root else ""
    identity = next(filter(None, map(identity_of, _remotes(_text(common / "config")))), "")
    return Repository(identity or _root_commit(root, git, common, git_s), str(root), main)


def _remotes(config: str) -> list[str]:
    """Return the addresses of the remotes, that of `origin` first."""
    remotes: list[tuple[str, str]] = []
    name = ""
    for line in map(str.strip, config.splitlines()):
        if line.startswith("["):
            match = _SECTION.fullmatch(line)
            name = match[1] if match else ""
        key, _, value = line.partition("=")
        if name and key.rstrip() == "url":
            remotes.append((name, value.strip().strip('"')))
    return [address for _, address in sorted(remotes, key=lambda remote: remote[0] != "origin")]


def _root_commit(root: Path, git: Path, common: Path, git_s: float) -> str:
    """Return the identity by the first commit of the first parents; an empty string without one, or in a shallow clone.

    Commits that are files of their own are read here.
    """
    if (common / "shallow").exists():
        return ""
    commit = _head(git, common)
    for _ in range(MAX_STEPS):
        if not _ROOT_COMMIT.fullmatch(ROOT + commit):
            return ""
        try:
            packed = (common / "objects" / commit[:2] / commit[2:]).read_bytes()
            text = zlib.decompressobj().decompress(packed, MAX_FILE_BYTES).partition(b"\0")[2]
        except (OSError, zlib.error):
            return _root_by_git(root, git_s)
        lines = text.partition(b"\n\n")[0].split(b"\n")
        parent = next((line.removeprefix(b"parent ") for line in lines if line.startswith(b"parent ")), None)
        if parent is None:
            return identity_of(ROOT + commit)
        commit = parent.decode("ascii", "replace")
    return _root_by_git(root, git_s)


def _head(git: Path, common: Path) -> str:
    head = _text(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if _ROOT_COMMIT.fullmatch(ROOT + head) else ""
    name = head.removeprefix("ref:").strip()
    if ".." in name:
        return ""
    for folder in dict.fromkeys((git, common)):
        if commit := _text(folder / name).strip():
            return commit if _ROOT_COMMIT.fullmatch(ROOT + commit) else ""
    for line in _text(common / "packed-refs").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name and _ROOT_COMMIT.fullmatch(ROOT + commit):
            return commit
    return ""


def _root_by_git(root: Path, git_s: float) -> str:
    command = ["git", "-C", str(root), "rev-list", "--first-parent", "--max-parents=0", "HEAD"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(command, capture_output=True, timeout=git_s, env=environment, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.decode("ascii", "replace").split()
    return identity_of(ROOT + lines[-1]) if done.returncode == 0 and lines else ""


def _text(path: Path) -> str:
    """Return the text of a small file; an empty string if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
