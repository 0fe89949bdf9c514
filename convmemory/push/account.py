"""The client's own files: the key and the server's address in `~/.config/convmemory`, its state under `~/.local/state`.

The environment wins over the files: CONVMEMORY_SERVER, and CONVMEMORY_KEY or the file that CONVMEMORY_KEY_FILE names.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .application import PROGRAM
from .sending import PushError, Server

NO_KEY = (
    "There is no key: set CONVMEMORY_KEY, or CONVMEMORY_KEY_FILE to a file that holds one, "
    "or run `convmemory-push connect`."
)


@dataclass(frozen=True, slots=True)
class Account:
    """The files of the client in one home folder."""

    home: Path

    @property
    def key_file(self) -> Path:
        return self.home / ".config" / "convmemory" / "key"

    @property
    def server_file(self) -> Path:
        return self.home / ".config" / "convmemory" / "server"

    @property
    def program(self) -> Path:
        """The client itself, as agents start it."""
        return self.home / ".local" / "share" / "convmemory" / PROGRAM

    @property
    def pause_file(self) -> Path:
        """Exists while the client is paused."""
        return self.home / ".config" / "convmemory" / "paused"

    @property
    def projects_file(self) -> Path:
        """The folders whose sessions alone may be sent, a line each, if it exists."""
        return self.home / ".config" / "convmemory" / "projects"

    @property
    def off_file(self) -> Path:
        """The ids and transcripts of sessions that ran with CONVMEMORY=off, a line each."""
        return self.home / ".config" / "convmemory" / "off"

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "convmemory"

    def address(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the server's address, or an empty string."""
        return environment.get("CONVMEMORY_SERVER") or _content(self.server_file)

    def key(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the key. Raises: PushError if there is none."""
        path = environment.get("CONVMEMORY_KEY_FILE")
        try:
            key = Path(path).read_text(encoding="utf-8").strip() if path else environment.get("CONVMEMORY_KEY", "")
        except OSError as error:
            raise PushError(f"The key cannot be read from {path}: {error.strerror}") from error
        key = key or _content(self.key_file)
        if not key:
            raise PushError(NO_KEY)
        return key

    def add_off(self, *names: str) -> None:
        """Record a session that ran with CONVMEMORY=off, by its id and its transcript. Raises: OSError."""
        recorded = _content(self.off_file).splitlines()
        new = [name for name in names if name and "\n" not in name and name not in recorded]
        if new:
            self.off_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self.off_file.open("a", encoding="utf-8") as file:
                file.writelines(f"{name}\n" for name in new)

    def server(self, environment: Mapping[str, str] = os.environ) -> Server:
        """Return the server with its key. Raises: PushError."""
        return Server(self.address(environment), self.key(environment))


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
