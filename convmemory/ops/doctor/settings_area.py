"""The settings in force, with secrets masked, and unsafe combinations of them."""

import stat
from collections.abc import Iterator
from pathlib import Path

from convmemory.core import conf
from convmemory.core.config import config
from convmemory.core.confinement import missing_parts
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


def facts() -> Iterator[Fact]:
    yield from sorted(conf.IN_FORCE.items())


def check_debug() -> Iterator[Finding]:
    if config.debug and _is_public():
        yield Finding(
            "settings.debug",
            Severity.ERROR,
            "DEBUG is on and the server answers under names that others can reach: errors show code and settings.",
            "Unset DEBUG and start the server again.",
        )


def check_https() -> Iterator[Finding]:
    if _is_public() and not config.https_only:
        yield Finding(
            "settings.plain-http",
            Severity.WARNING,
            "The server answers under names that others can reach, and its cookies also travel without encryption.",
            "Put a proxy with HTTPS in front of it and set HTTPS_ONLY=1.",
        )


def check_secret_file() -> Iterator[Finding]:
    path = Path(config.var_dir) / "secret_key"
    if not path.is_file() or not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return

    def close() -> str:
        path.chmod(0o600)
        return f"Only its owner can read {path} now."

    yield Finding(
        "settings.secret-readable",
        Severity.ERROR,
        f"Other users of this machine can read the signing key {path}: they could sign in as anybody.",
        f"Run `chmod 600 {path}`; if others may have read it, delete it, which signs everybody out.",
        close,
    )


def check_confinement() -> Iterator[Finding]:
    if missing := missing_parts():
        yield Finding(
            "settings.unconfined",
            Severity.WARNING,
            "The kernel cannot fully confine the processes that read uploads, documents and databases: a hostile "
            f"file that takes one over could {', '.join(missing)}.",
            "Run the server on a newer kernel, or as a user or in a container that can reach nothing else.",
        )


def check_folder() -> Iterator[Finding]:
    folder = Path(config.var_dir)
    if not folder.stat().st_mode & (stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH):
        return

    def close() -> str:
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~(stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH))
        return f"Only its owner can list {folder} now."

    yield Finding(
        "settings.folder-readable",
        Severity.WARNING,
        f"Other users of this machine can list the data folder {folder}.",
        f"Run `chmod go-rw {folder}`.",
        close,
    )


def _is_public() -> bool:
    return not LOCAL_HOSTS.issuperset(config.allowed_hosts)


AREA = Area("settings", facts, (check_debug, check_https, check_secret_file, check_confinement, check_folder))
