"""Packs files into archives that the server reads like the folders they come from.

Each file keeps the folders that its format needs, and is packed with the small neighbouring files that name its
project. A database is copied consistently through SQLite, even while its program has it open.
"""

import hashlib
import os
import sqlite3
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from .databases import DATABASES, Session, can_divide
from .ledger import Ledger
from .projects import Unreadable, can_reduce, is_shared, name_of, reduce, sessions_in
from .repositories import FOLDERS_FILE, folders_as_text
from .rules import Rules
from .stores import SessionStore, is_of_chats

MAX_FILES = 50  # a refused archive is halved until the file at fault is alone
MAX_BYTES = 64 * 1024**2  # of files, before compression; an interrupted upload starts again at its archive
CHUNK_BYTES = 1024**2
MADE = (1980, 1, 1, 0, 0, 0)
_COMPANIONS = {
    "amplifier": ("metadata.json", "events.jsonl"),
    "cline": ("history_item.json",),
    "copilot-cli": ("workspace.yaml",),
    "gemini-cli": ("../.project_root", "../../.project_root"),
    "grok-build": ("summary.json",),
    "kilo": ("history_item.json",),
    "kimi-code": ("../../state.json",),
    "mistral-vibe": ("meta.json",),
    "roo": ("history_item.json",),
    "vscode-copilot": ("../workspace.json",),
}


@dataclass(frozen=True, slots=True)
class Item:
    """A file to send: its path, its name in the archive, and the digest of what is sent of it.

    `folders` are those of its sessions. With `rules`, only the sessions that they do not leave out are sent; with
    `ended`, of these only the one that has ended.
    """

    store: SessionStore
    path: Path
    name: str
    digest: str
    size: int
    companions: tuple[tuple[Path, str], ...]
    folders: tuple[str, ...] = ()
    rules: Rules | None = None
    ended: "Ended | None" = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The session that has ended: its id, or its file as the agent names it."""

    id: str
    transcript: str

    def has(self, store: SessionStore, path: Path) -> bool:
        """Return whether the file is of this session alone, or a database with it from which it can be taken."""
        if is_shared(store, path):
            return path.suffix in DATABASES and can_divide(store.agent) and bool(self._sessions(store, path))
        transcript = Path(self.transcript)
        is_transcript = path.name == transcript.name and path.resolve() == transcript.resolve()
        return is_transcript or self.is_session(Session(name_of(store, path), ""))

    def is_session(self, session: Session) -> bool:
        return bool(self.id) and session.has_id(self.id)

    def _sessions(self, store: SessionStore, path: Path) -> list[Session]:
        try:
            return [session for session in sessions_in(store, path) if self.is_session(session)] if self.id else []
        except Unreadable:
            return []


def unsent(
    stores: Iterable[SessionStore],
    *,
    server: str,
    ledger: Ledger,
    rules: Rules,
    left_out: Counter[str],
    ended: Ended | None = None,
) -> Iterator[Item]:
    """Yield the files whose bytes were not sent to the server yet; `left_out` counts those that stay by their reason.

    Files that vanish meanwhile are passed over.
    """
    for store in stores:
        if store.agent == "opencode" and store.path.name == "session":
            continue  # OpenCode's old folders: a session is hundreds of files there, which only `sync` reads together
        for path in store.files():
            if not is_of_chats(store, path) or (ended is not None and not ended.has(store, path)):
                continue
            if store.within is not None and not path.resolve().is_relative_to(store.within):
                continue
            try:
                item = _item(store, path, ledger)
            except OSError:
                continue  # deleted, or being replaced: the next run reads it
            if not is_shared(store, path) and ledger.was_sent(server, item.digest):
                continue
            try:
                reason, item = _under(rules, item, ended)
            except Unreadable as error:
                reason = f"cannot be read: {error}"
            if reason:
                left_out[reason] += 1
            elif not ledger.was_sent(server, item.digest):
                yield item


def _item(store: SessionStore, path: Path, ledger: Ledger) -> Item:
    """Return the file as a whole. Raises: OSError."""
    status = path.stat()
    log = path.with_name(f"{path.name}-wal")
    logged = log.stat() if path.suffix in DATABASES and store.contains(log) else None
    size = status.st_size + (logged.st_size if logged else 0)
    modified_ns = max(status.st_mtime_ns, logged.st_mtime_ns if logged else 0)
    digest = ledger.known_digest(str(path), size=size, modified_ns=modified_ns)
    if not digest:
        content = hashlib.sha256()
        for each in [path, log] if logged else [path]:
            with each.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    content.update(chunk)
        digest = content.hexdigest()
        ledger.record_digest(str(path), size=size, modified_ns=modified_ns, digest=digest)
    return Item(store, path, _name(store, path), digest, size, tuple(_companions(store, path)))


def _under(rules: Rules, item: Item, ended: Ended | None) -> tuple[str, Item]:
    """Return why the file is left out, or an empty string and what of it may be sent."""
    if ended is not None and is_shared(item.store, item.path):
        sessions = [session for session in sessions_in(item.store, item.path) if ended.is_session(session)]
        reason = max(map(rules.reason, sessions), default="")
        digest = hashlib.sha256(f"{item.digest}\n{ended.id}".encode()).hexdigest()
        folders = tuple(sorted({session.project for session in sessions}))
        return reason, replace(item, digest=digest, rules=rules, ended=ended, folders=folders)
    verdict = rules.of_file(item.store, item.path)
    if verdict.reason or not verdict.left_out:
        return verdict.reason, replace(item, folders=verdict.folders)
    if not can_reduce(item.store, item.path):
        return "has sessions that are left out, and cannot be divided", item
    # Sent again once other sessions are left out.
    names = sorted(f"{session.id} {session.project}" for session in verdict.left_out)
    digest = hashlib.sha256("\n".join([item.digest, *names]).encode()).hexdigest()
    return "", replace(item, digest=digest, rules=rules, folders=verdict.folders)


def batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the items grouped into archives of a reasonable size; a large file gets its own."""
    batch: list[Item] = []
    for item in items:
        if batch and (len(batch) == MAX_FILES or sum(other.size for other in batch) + item.size > MAX_BYTES):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def pack(items: Sequence[Item], target: Path, *, home: Path) -> None:
    """Write the archive, with the repositories of the items' folders. Raises: OSError, sqlite3.Error, Unreadable."""
    names: set[str] = set()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for item in items:
            for path, name in ((item.path, item.name), *item.companions):
                if name not in names:
                    names.add(name)
                    _add(archive, path, name, item)
        text = folders_as_text((folder for item in items for folder in item.folders), home)
        if text:
            archive.writestr(zipfile.ZipInfo(FOLDERS_FILE, MADE), text)  # the same folders give the same archive


def _name(store: SessionStore, path: Path) -> str:
    return f"{store.agent}/{path.relative_to(store.path.parent).as_posix()}"


def _companions(store: SessionStore, path: Path) -> Iterator[tuple[Path, str]]:
    for relative in _COMPANIONS.get(store.agent, ()):
        folder, steps = path.parent, relative.split("/")
        for _ in steps[:-1]:
            folder = folder.parent
        beside = folder / steps[-1]
        if beside.is_relative_to(store.path) and store.contains(beside):
            yield beside, _name(store, beside)


def _add(archive: zipfile.ZipFile, path: Path, name: str, item: Item) -> None:
    rules = item.rules
    if path.suffix not in DATABASES and rules is None:
        archive.write(path, name)
        return
    with tempfile.TemporaryDirectory(prefix="convmemory-push-") as folder:
        copy = path
        if path.suffix in DATABASES:
            copy = Path(folder) / "copy.db"
            source = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5)
            with closing(source), closing(sqlite3.connect(copy)) as target:
                # A copy of the file alone would lack the rows in the write-ahead log.
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")
        if rules is not None:
            part = Path(folder) / "part"
            ended = item.ended
            reduce(
                item.store, copy, part,
                lambda session: not rules.reason(session) and (ended is None or ended.is_session(session)),
            )  # fmt: skip
            copy = part
        # The same content gives the same archive, whose digest the server compares.
        os.utime(copy, (path.stat().st_atime, path.stat().st_mtime))
        archive.write(copy, name)
