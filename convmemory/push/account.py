"""The client's own files: the key and the server's address in `~/.config/convmemory`, its state under `~/.local/state`.

The environment wins over the files: CONVMEMORY_SERVER, and CONVMEMORY_KEY or the file that CONVMEMORY_KEY_FILE names.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .sending import PushError, Server

NO_KEY = (
    "There is no key: set CONVMEMORY_KEY, or CONVMEMORY_KEY_FILE to a file that holds one, or run `convmemory connect`."
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

    def server(self, environment: Mapping[str, str] = os.environ) -> Server:
        """Return the server with its key. Raises: PushError."""
        return Server(self.address(environment), self.key(environment))


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
