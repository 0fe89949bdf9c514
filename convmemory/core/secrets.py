"""The signing key of this installation, made once and kept under `var/`."""

import os
import secrets
from pathlib import Path

from convmemory.core.private_files import private_folder


def secret_key(path: Path) -> str:
    """The key stored at `path`; the first process to need it creates it, readable by its user alone."""
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    private_folder(path.parent)
    candidate = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(candidate, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(50))
    try:
        os.link(candidate, path)  # atomic, and refuses to replace a key that another process just wrote
    except FileExistsError:
        pass
    finally:
        candidate.unlink()
    return path.read_text(encoding="ascii").strip()
