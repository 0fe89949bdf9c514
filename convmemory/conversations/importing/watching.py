"""Imports agents' files as soon as they are written.

The operating system reports that something changed in a store; `syncing.py` then determines the changes, so that
nothing is missed if an event is lost.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import watchfiles
from django.db import close_old_connections
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import AUTO
from convmemory.conversations.importing.links import record_conversation
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.runner import ImportReport
from convmemory.conversations.importing.syncing import SyncReport, sync_places
from convmemory.conversations.messages.ingest import SyncResult
from convmemory.core.text import json_storable
from convmemory.push.rules import Rules
from convmemory.push.stores import SessionStore


# One import per day can be undone like any other. Its state is always ended, so that it can be undone while the watch
# continues; later conversations go to a new import.
class WatchedImports:
    """The imports of one watch of one owner, one of which is open."""

    def __init__(self, caller: Caller) -> None:
        self._caller, self._archive_id = caller, caller.archive_id
        self._number = 0
        self._files: dict[str, FileReport] = {}

    def on_stored(self, file: FileReport, result: SyncResult) -> None:
        """Record the messages added to a conversation, if any. Runs in the transaction that stores them."""
        if result.created or result.added or result.updated:
            # Today's import, locked, so that its undo cannot begin before this transaction has ended.
            now = timezone.now()
            rows = Import.objects.select_for_update().filter(pk=self._number, archive_id=self._archive_id)
            row = rows.filter(state=Import.State.DONE).first()
            today = timezone.localdate(now)
            if row is None or timezone.localdate(row.created_at) != today:
                row = Import.objects.create(
                    archive_id=self._archive_id, name=f"watch of {today}", format=AUTO, size=0, state=Import.State.DONE,
                    started_at=now, ended_at=now,
                )  # fmt: skip
                self._number, self._files = row.pk, {}
                what = f"import {row.pk}"
                record(Action.CHANGED, what=what, person_id=self._caller.person_id, about_id=self._archive_id)
            record_conversation(row, file, result)

    def add(self, report: ImportReport) -> None:
        """Add the outcome of one sync, if it imported anything, to the report of the open import."""
        brought = [file for file in report.files if file.added or file.updated or file.errors]
        if not (self._number and brought):
            return
        for file in brought:
            earlier = self._files.get(file.path)
            self._files[file.path] = joined(earlier, file) if earlier else file
        whole = ImportReport(list(self._files.values()), messages_read=sum(f.messages for f in self._files.values()))
        Import.objects.filter(pk=self._number, archive_id=self._archive_id, state=Import.State.DONE).update(
            ended_at=timezone.now(), files_read=len(whole.files), messages_read=whole.messages_read,
            report=json_storable(whole.to_stored_json()),
        )  # fmt: skip


def joined(earlier: FileReport, later: FileReport) -> FileReport:
    """Return the combined outcome of two imports of one file.

    The later one read it in full, including messages that the earlier one added.
    """
    return replace(
        later,
        added=earlier.added + later.added,
        updated=earlier.updated + later.updated,
        unchanged=max(0, later.unchanged - earlier.added - earlier.updated),
        events=earlier.events + later.events,
    )


# Agents write several lines at a time; one sync for all of them is enough.
QUIET_MS = 400  # after the last change of a burst,
BURST_MS = 2_000  # but no longer than this after the first
LOOK_AGAIN_S = 5.0  # for new and deleted stores

logger = logging.getLogger(__name__)
OnSynced = Callable[[SyncReport], None]


def watch_stores(
    *,
    caller: Caller,
    stores: Sequence[SessionStore],
    stop: Event,
    on_synced: OnSynced,
    rules: Callable[[], Rules] = Rules,
) -> None:
    """Sync the stores, and again whenever something in them changes, until `stop` is set or Ctrl-C.

    The rules are read before each sync; a pause postpones it.
    Imported conversations are listed among the owner's imports and can be undone.
    """
    watch = _Watch(caller, WatchedImports(caller), on_synced, rules)
    watch.sync(stores)
    while not stop.is_set():
        here = [store for store in stores if store.path.exists()]
        if not here:
            stop.wait(LOOK_AGAIN_S)
            continue
        try:
            _watch(watch, here, stores, stop)
        except (OSError, RuntimeError) as error:  # raised by the watcher if a folder vanishes
            logger.warning("A watched folder is gone: %s", error)
            stop.wait(LOOK_AGAIN_S)
        watch.sync(stores)


@dataclass(frozen=True, slots=True)
class _Watch:
    """The constants of one watch."""

    caller: Caller
    imports: WatchedImports
    on_synced: OnSynced
    rules: Callable[[], Rules]

    def sync(self, stores: Sequence[SessionStore]) -> bool:
        """Import what changed in the existing stores; return False without doing so during a pause."""
        rules = self.rules()
        if rules.stop:
            return False
        close_old_connections()
        here = [store for store in stores if store.path.exists()]
        report = sync_places(caller=self.caller, stores=here, rules=rules, on_stored=self.imports.on_stored)
        self.imports.add(report.imported)
        self.on_synced(report)
        return True


def _watch(watch: _Watch, here: Sequence[SessionStore], stores: Sequence[SessionStore], stop: Event) -> None:
    """Watch until the set of existing stores changes."""
    watched = _identities(here)
    waiting = list(here)  # until the first event, because no event reports changes since the last sync
    looked_at = time.monotonic()
    for changes in watchfiles.watch(
        *{_root(store) for store in here},
        debounce=BURST_MS,
        step=QUIET_MS,
        stop_event=stop,
        rust_timeout=int(LOOK_AGAIN_S * 1000),
        yield_on_timeout=True,
        watch_filter=None,
        raise_interrupt=False,
    ):
        touched = [store for store in here if any(_is_in(store, Path(path)) for _, path in changes)]
        waiting += [store for store in touched if store not in waiting]
        if waiting and watch.sync(waiting):
            waiting = []
        if time.monotonic() - looked_at >= LOOK_AGAIN_S:
            looked_at = time.monotonic()
            if _identities(stores) != watched:
                return


def _root(store: SessionStore) -> Path:
    """Return the folder to watch: for a single file its parent folder, so that its log is included."""
    return store.path if store.path.is_dir() else store.path.parent


def _identities(stores: Sequence[SessionStore]) -> set[tuple[Path, int]]:
    """Return the existing folders, each with its inode: a recreated folder is a different one."""
    roots = {_root(store) for store in stores if store.path.exists()}
    return {(root, root.stat().st_ino) for root in roots if root.exists()}


def _is_in(store: SessionStore, path: Path) -> bool:
    return path.is_relative_to(_root(store).resolve()) or path.is_relative_to(_root(store))
