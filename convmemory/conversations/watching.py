"""Imports agents' files as soon as they are written.

The operating system reports that something changed in a place; `syncing.py` then determines the changes, so that
nothing is missed if an event is lost.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import watchfiles
from django.contrib.auth.models import AbstractBaseUser
from django.db import close_old_connections

from convmemory.conversations.syncing import SyncReport, sync_places
from convmemory.conversations.watched_imports import WatchedImports
from convmemory.push.places import Place

# Agents write several lines at a time; one sync for all of them is enough.
QUIET_MS = 400  # after the last change of a burst,
BURST_MS = 2_000  # but no longer than this after the first
LOOK_AGAIN_S = 5.0  # for new and deleted places

logger = logging.getLogger(__name__)
OnSynced = Callable[[SyncReport], None]


def watch_places(*, owner: AbstractBaseUser, places: Sequence[Place], stop: Event, on_synced: OnSynced) -> None:
    """Sync the places, and again whenever something in them changes, until `stop` is set or Ctrl-C.

    Imported conversations are listed among the owner's imports and can be undone.
    """
    watch = _Watch(owner, WatchedImports(owner), on_synced)
    watch.sync(places)
    while not stop.is_set():
        here = [place for place in places if place.path.exists()]
        if not here:
            stop.wait(LOOK_AGAIN_S)
            continue
        try:
            _watch(watch, here, places, stop)
        except (OSError, RuntimeError) as error:  # raised by the watcher if a folder vanishes
            logger.warning("A watched folder is gone: %s", error)
            stop.wait(LOOK_AGAIN_S)
        watch.sync(places)


@dataclass(frozen=True, slots=True)
class _Watch:
    """The constants of one watch."""

    owner: AbstractBaseUser
    imports: WatchedImports
    on_synced: OnSynced

    def sync(self, places: Sequence[Place]) -> None:
        """Import what changed in the existing places."""
        close_old_connections()
        here = [place for place in places if place.path.exists()]
        report = sync_places(owner=self.owner, places=here, on_stored=self.imports.on_stored)
        self.imports.add(report.imported)
        self.on_synced(report)


def _watch(watch: _Watch, here: Sequence[Place], places: Sequence[Place], stop: Event) -> None:
    """Watch until the set of existing places changes."""
    watched = _identities(here)
    unwatched = here  # until the first event, because no event reports changes since the last sync
    looked_at = time.monotonic()
    for changes in watchfiles.watch(
        *{_root(place) for place in here},
        debounce=BURST_MS,
        step=QUIET_MS,
        stop_event=stop,
        rust_timeout=int(LOOK_AGAIN_S * 1000),
        yield_on_timeout=True,
        watch_filter=None,
        raise_interrupt=False,
    ):
        touched = unwatched or [place for place in here if any(_is_in(place, Path(path)) for _, path in changes)]
        unwatched = ()
        if touched:
            watch.sync(touched)
        if time.monotonic() - looked_at >= LOOK_AGAIN_S:
            looked_at = time.monotonic()
            if _identities(places) != watched:
                return


def _root(place: Place) -> Path:
    """Return the folder to watch: for a single file its parent folder, so that its log is included."""
    return place.path if place.path.is_dir() else place.path.parent


def _identities(places: Sequence[Place]) -> set[tuple[Path, int]]:
    """Return the existing folders, each with its inode: a recreated folder is a different one."""
    roots = {_root(place) for place in places if place.path.exists()}
    return {(root, root.stat().st_ino) for root in roots if root.exists()}


def _is_in(place: Place, path: Path) -> bool:
    return path.is_relative_to(_root(place).resolve()) or path.is_relative_to(_root(place))
