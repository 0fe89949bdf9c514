"""The signing key of this installation, generated once and stored under `var/`."""

import secrets
from contextlib import suppress
from pathlib import Path

from convmemory.core.errors import SettingError
from convmemory.core.private_files import written_whole


def secret_key(path: Path) -> str:
    """Return the key stored at `path`; the first process to need it creates it, readable by its user alone.

    Raises: SettingError if the file is empty.
    """
    if not path.exists():
        with suppress(FileExistsError), written_whole(path, replaces=False) as file:  # another process was faster
            file.write(secrets.token_urlsafe(50).encode("ascii"))
    key = path.read_text(encoding="ascii").strip()
    if not key:
        raise SettingError(
            f"{path} is empty: put it back from a backup. Or delete it to have a new key made; people then have to "
            "sign in again, and stored keys of agents and kept uploads can no longer be read."
        )
    return key
