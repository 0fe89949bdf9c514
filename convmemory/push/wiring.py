"""Writes the entries of agents into their files, takes them out again, and checks them.

`~/.local/state/convmemory/wired.json` records each insertion with its text, so that taking it out leaves the file as it
was. An entry that a person has changed is never touched; its file is named.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from .account import Account
from .agents import AGENTS, Agent, Entry, Wires, agent_named, entries_of
from .application import application, interpreter
from .edits import MISSING, Target, Unreadable, insert, read, remove
from .sending import PushError
from .stores import folders

RECORD = "wired.json"
SECRET, PROGRAM_MODE = 0o600, 0o755
_SLUGS = {agent.slug for agent in AGENTS}


@dataclass(slots=True)
class Inserted:
    """One insertion of the record; `is_new` says that the file was created for it."""

    agent: str
    file: str
    form: str
    keys: tuple[str, ...]
    is_item: bool
    marker: str
    value: Any
    text: str
    made: int
    is_new: bool

    @property
    def target(self) -> Target:
        return Target(self.form, tuple(self.keys), self.is_item, self.marker)

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return self.agent, self.form, tuple(self.keys)


@dataclass(slots=True)
class Record:
    """The insertions in their order, and the folders and own files that were created."""

    entries: list[Inserted] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class Wiring:
    """The agents of one home folder. With `is_dry` nothing is written."""

    def __init__(self, account: Account, *, environment: Mapping[str, str] = os.environ, is_dry: bool = False) -> None:
        self._account, self._is_dry, self._environment = account, is_dry, environment
        self._folders = {name: str(path) for name, path in folders(home=account.home, environment=environment).items()}
        text = _read(self._record_file)
        if text is None:
            self._record = Record()
        else:
            try:
                value = json.loads(text)
                names = [each.name for each in fields(Inserted)]  # a newer client may have written more
                self._record = Record(
                    [Inserted(**{name: entry[name] for name in names}) for entry in value["entries"]],
                    value["folders"],
                    value["files"],
                )
            except (ValueError, TypeError, KeyError) as error:
                raise PushError(
                    f"{self._record_file} cannot be read: repair it, or delete it and the entries"
                ) from error
        self._texts: dict[Path, str | None] = {}  # what a dry run would have written

    def installed(self) -> list[Agent]:
        """Return the agents that are on this machine: by their folders, or by their programs."""
        search = self._environment.get("PATH")
        return [
            agent
            for agent in AGENTS
            if any(Path(folder.format_map(self._folders)).is_dir() for folder in agent.found)
            or any(shutil.which(program, path=search) for program in agent.programs)
        ]

    def wired(self) -> list[str]:
        """Return the agents that have recorded insertions, with those that only a newer client has in its table."""
        slugs = dict.fromkeys(entry.agent for entry in self._record.entries)
        return [*(agent.slug for agent in AGENTS if agent.slug in slugs), *sorted(slugs.keys() - _SLUGS)]

    def save_client(self, wires: Wires) -> None:
        """Write the client itself, the server's address, and the key, which its owner alone can read."""
        account = self._account
        for path, content, mode in (
            (account.program, application(interpreter()), PROGRAM_MODE),
            (account.server_file, f"{wires.server}\n".encode(), SECRET),
            (account.key_file, f"{wires.key}\n".encode(), SECRET),
        ):
            if not path.exists() or path.read_bytes() != content:
                if not path.exists():
                    self._record.files.append(str(path))
                self._write(path, content, mode=mode)
        self._save()

    def connect(self, agent: Agent, wires: Wires) -> list[str]:
        """Bring an agent's files up to date; return a line for each change, each problem and each kept entry."""
        lines: list[str] = []
        entries = list(entries_of(agent, wires))
        values = {(agent.slug, entry.target.form, entry.target.keys): entry.value for entry in entries}
        created: set[str] = set()  # files that were created for entries that are replaced
        # All are taken out before the first is put in, so that what encloses them goes and comes with them.
        for old in self._entries_of(agent.slug)[::-1]:
            if old.key not in values:
                lines += self._take_out(old)
            elif old.value != values[old.key] and self._is_unchanged(old):
                self._take_out(old)
                created |= {old.file} if old.is_new else set()
        for entry in entries:
            try:
                lines += self._put_in(agent, entry, created)
            except (Unreadable, OSError) as error:
                lines.append(f"{self._file_of(entry)} is left as it is: {_reason(error)}")
        self._save()
        return lines

    def disconnect(self, slugs: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        """Take out the agents' insertions, and after the last one the client's own files; yield what each one lost."""
        for slug in slugs:
            lines: list[str] = []
            for entry in self._entries_of(slug)[::-1]:
                lines += self._take_out(entry)
            agent = agent_named(slug)
            yield (agent.name if agent else slug), lines
        self._save()
        if not self._record.entries and not self._is_dry:
            for name in self._record.files:
                Path(name).unlink(missing_ok=True)
                self._remove_folders(Path(name).parent)
            created = list(self._record.folders)
            shutil.rmtree(self._account.state, ignore_errors=True)
            for name in reversed(created):
                with contextlib.suppress(OSError):
                    Path(name).rmdir()

    def faults(self, agent: Agent) -> list[str]:
        """Return what is wrong with an agent's entries: missing, or changed by a person."""
        lines = []
        for entry in self._entries_of(agent.slug):
            try:
                present = read(self._text(Path(entry.file)) or "", entry.target, entry.value)
            except (Unreadable, OSError) as error:
                lines.append(f"{entry.file}: {_reason(error)}")
                continue
            if present is MISSING:
                lines.append(f"{entry.file}: {_named(entry.target)} is missing; run `convmemory-push connect` again")
            elif present != entry.value:
                lines.append(f"{entry.file}: {_named(entry.target)} was changed by hand")
        return lines

    def _entries_of(self, slug: str) -> list[Inserted]:
        return [entry for entry in self._record.entries if entry.agent == slug]

    def _is_unchanged(self, entry: Inserted) -> bool:
        try:
            return bool(read(self._text(Path(entry.file)) or "", entry.target, entry.value) == entry.value)
        except (Unreadable, OSError):
            return False

    def _put_in(self, agent: Agent, entry: Entry, created: Collection[str]) -> list[str]:
        key = (agent.slug, entry.target.form, entry.target.keys)
        old = next((present for present in self._record.entries if present.key == key), None)
        path = Path(old.file) if old else self._file_of(entry)
        present = read(self._text(path) or "", entry.target, old.value if old else entry.value)
        if old and present is MISSING:
            self._record.entries.remove(old)
        elif present == entry.value:
            return []  # also if a person has written the same
        elif present is not MISSING:
            return [f"{path}: {_named(entry.target)} was written by hand and is kept"]
        before = self._text(path)
        edit = insert(before or "", entry.target, entry.value)
        self._write(path, edit.text)
        is_new = before is None or str(path) in created or bool(old and old.is_new and old.file == str(path))
        self._record.entries.append(
            Inserted(
                agent.slug, str(path), entry.target.form, entry.target.keys, entry.target.is_item, entry.target.marker,
                entry.value, edit.inserted, edit.made, is_new,
            )
        )  # fmt: skip
        return [f"{path}: {_named(entry.target)}"]

    def _take_out(self, entry: Inserted) -> list[str]:
        path, target = Path(entry.file), entry.target
        self._record.entries.remove(entry)
        try:
            text = self._text(path)
            if text is None or read(text, target, entry.value) is MISSING:
                return []
            left = remove(text, target, entry.value, inserted=entry.text, made=entry.made)
        except (Unreadable, OSError) as error:
            return [f"{path} is left as it is: {_reason(error)}"]
        if left is None:
            return [f"{path}: {_named(target)} was changed by hand and is kept"]
        is_ours = entry.is_new or any(other.file == entry.file and other.is_new for other in self._record.entries)
        if is_ours and left.strip() in ("", "{}"):
            self._write(path, None)
        else:
            self._write(path, left)
        return [f"{path}: {_named(target)} taken out"]

    def _file_of(self, entry: Entry) -> Path:
        paths = [Path(file.format_map(self._folders)) for file in entry.files]
        return next((path for path in paths if path.exists()), paths[0])

    def _text(self, path: Path) -> str | None:
        return self._texts[path] if path in self._texts else _read(path)

    def _write(self, path: Path, content: str | bytes | None, *, mode: int | None = None) -> None:
        """Write a file, or remove it with the folders that were created for it if `content` is None."""
        if self._is_dry:
            self._texts[path] = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
            return
        if content is None:
            path.unlink(missing_ok=True)
            self._remove_folders(path.parent)
            return
        self._make_folders(path.parent)
        target = path.resolve()  # a link to a file elsewhere stays a link
        if mode is None:
            mode = target.stat().st_mode & 0o777 if target.exists() else None
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with open(handle, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
            if mode is None:
                mask = os.umask(0)
                os.umask(mask)
                ordinary_mode = 0o666 & ~mask
            else:
                ordinary_mode = mode
            os.chmod(name, ordinary_mode)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _make_folders(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700)
            self._record.folders.append(str(each))

    def _remove_folders(self, folder: Path) -> None:
        """Remove the folder and those above it, as long as they were created for us and are empty."""
        while str(folder) in self._record.folders:
            try:
                folder.rmdir()
            except OSError:
                return
            self._record.folders.remove(str(folder))
            folder = folder.parent

    @property
    def _record_file(self) -> Path:
        return self._account.state / RECORD

    def _save(self) -> None:
        if not self._is_dry:
            self._make_folders(self._record_file.parent)
            self._write(self._record_file, json.dumps(asdict(self._record), indent=1) + "\n", mode=SECRET)


def chosen_agents(slugs: Sequence[str], otherwise: list[Agent]) -> list[Agent]:
    """Return the agents that were named, or the others if none was."""
    return [agent for agent in AGENTS if agent.slug in slugs] if slugs else otherwise


def _read(path: Path) -> str | None:
    """Return the content of a file, or None if there is none. Raises: Unreadable, OSError."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise Unreadable("it is not UTF-8") from error


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _named(target: Target) -> str:
    return ".".join(target.keys) or "the file"
