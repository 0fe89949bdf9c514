"""The rules by which sessions stay on this machine: honoured by `push`, the hook, and the server's `sync` and `watch`.

Nothing leaves while the client is paused, or of a process with CONVMEMORY=off, nor does later a session that ran so.
A file `.convmemory-ignore` leaves out the sessions of its folder and of those below it, by patterns as in .gitignore.
A list of projects leaves out all others. What cannot be read leaves out.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .account import Account
from .databases import Session
from .ignoring import Pattern, is_ignored, parse_patterns
from .projects import Unreadable, is_shared, sessions_in
from .stores import SessionStore

IGNORE_FILE = ".convmemory-ignore"
SWITCH = "CONVMEMORY"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a file stays here as a whole, or an empty string; its folders; and its sessions that stay."""

    reason: str = ""
    folders: tuple[str, ...] = ()
    left_out: tuple[Session, ...] = ()
    is_read: bool = True


@dataclass(slots=True)
class Rules:
    """The rules of one home folder at one time.

    `stop` says why nothing may leave now, or is empty. `projects` are the only folders whose sessions may, or None.
    `off` are the ids and the transcripts of sessions that ran with CONVMEMORY=off.
    """

    stop: str = ""
    projects: tuple[str, ...] | None = None
    off: frozenset[str] = frozenset()
    _reasons: dict[str, str] = field(default_factory=dict)
    _patterns: dict[Path, tuple[Pattern, ...] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, account: Account, environment: Mapping[str, str] = os.environ) -> "Rules":
        """Return the rules that are in force now."""
        stop = ""
        if environment.get(SWITCH, "").strip().lower() == "off":
            stop = f"{SWITCH}=off"
        elif os.path.lexists(account.pause_file):
            stop = "paused"
        listed = _lines(account.projects_file) if os.path.lexists(account.projects_file) else None
        if listed is not None:
            listed = tuple(os.path.normpath(os.path.join(account.home, line.removeprefix("~/"))) for line in listed)
        return cls(stop, listed, frozenset(_lines(account.off_file)))

    def reason(self, session: Session) -> str:
        """Return why a session is left out, whatever `stop` says; an empty string if it may leave."""
        if any(map(session.has_id, self.off)):
            return f"ran with {SWITCH}=off"
        if session.project not in self._reasons:
            self._reasons[session.project] = self._reason_of(session.project)
        return self._reasons[session.project]

    def of_file(self, store: SessionStore, path: Path) -> "Verdict":
        """Return what of a file may leave."""
        if not self.off.isdisjoint((str(path), str(path.resolve()))):
            return Verdict(f"ran with {SWITCH}=off")
        try:
            sessions = sessions_in(store, path)
        except Unreadable as error:
            return Verdict(f"cannot be read: {error}", is_read=False)
        reasons = {session: self.reason(session) for session in sessions}
        folders = {session.project for session in sessions if not reasons[session]}
        # A file of one session has several only if its name can mean several folders.
        is_out = all(reasons.values()) if is_shared(store, path) else any(reasons.values())
        return Verdict(
            max(reasons.values()) if reasons and is_out else "",
            tuple(sorted(folders)),
            tuple(session for session, reason in reasons.items() if reason),
        )

    def _reason_of(self, project: str) -> str:
        if self.projects is not None:
            folders = {os.path.normpath(project), os.path.realpath(project)} if project else set()
            if not any(_is_in(folder, listed) for folder in folders for listed in self.projects):
                return "not in the list of projects"
        if not os.path.isabs(project):
            return ""
        for folder in dict.fromkeys((Path(os.path.normpath(project)), Path(os.path.realpath(project)))):
            ignored_by = self._ignored_by(folder)
            if ignored_by:
                return str(ignored_by)
        return ""

    def _ignored_by(self, folder: Path) -> Path | None:
        """Return the file that leaves out a folder or one above it, or None."""
        chain = [*reversed(folder.parents), folder]
        for number, each in enumerate(chain):
            for above in reversed(chain[:number]):
                patterns = self._patterns_in(above)
                is_out = is_ignored(each.relative_to(above).parts, patterns) if patterns else None
                if is_out:
                    return above / IGNORE_FILE
                if is_out is False:
                    break
            if self._patterns_in(each) == ():
                return each / IGNORE_FILE
        return None

    def _patterns_in(self, folder: Path) -> tuple[Pattern, ...] | None:
        """Return the patterns of a folder's file: none if it leaves out everything, None without a file."""
        if folder not in self._patterns:
            path = folder / IGNORE_FILE
            patterns: tuple[Pattern, ...] | None = None
            if os.path.lexists(path):
                try:
                    patterns = parse_patterns(path.read_bytes().decode("utf-8"))
                except (OSError, UnicodeDecodeError):
                    patterns = ()
            self._patterns[folder] = patterns
        return self._patterns[folder]


def _lines(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ()
    return tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _is_in(folder: str, listed: str) -> bool:
    if sys.platform in ("darwin", "win32"):  # whose file systems mostly ignore case
        folder, listed = folder.casefold(), listed.casefold()
    return Path(folder).is_relative_to(listed)
