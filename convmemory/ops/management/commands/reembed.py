"""`manage.py reembed`: change the embedding model while the product runs, or embed missing items.

Progress goes to standard error, the report to standard output.
"""

import sys
import time
from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management.base import CommandError

from convmemory.accounts.users import archive_named
from convmemory.core.commands import ArchiveCommand, moment
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput
from convmemory.core.program import COMMAND
from convmemory.embeddings.models import SENTENCE_FIELDS, EmbeddingSpace
from convmemory.embeddings.options import PROVIDERS
from convmemory.embeddings.spaces import active_space, building_space, space_key, space_of, stop_building
from convmemory.ops.reembed.batching import embed_in_batches
from convmemory.ops.reembed.changing_over import (
    build,
    change_over,
    count_rows,
    prune,
    refresh,
    retired_spaces,
    selected,
)
from convmemory.ops.reembed.progress import ReembedProgress, duration
from convmemory.ops.reembed.targets import checked_embedder, estimate, estimate_lines, settings_for, target_options
from search.adapters.conversations import KIND
from search.indexing.sweeping import DEFECTS, Defect, SourceSelection, select_active, select_building
from search.models import Source

# The pause between two lines of progress if the output is not a terminal.
QUIET_S = 10
# What a shell reports for a command ended by Ctrl-C: 128 + SIGINT.
INTERRUPTED = 130
MODEL_OPTIONS = ("model", "provider", "dimensions", "base_url", "token_model")
OF_MODEL = "[--model] [--provider] [--dimensions] [--token-model] [--base-url]"
OF_PART = "[--user] [--conversation] [--since] [--only]"


class Command(ArchiveCommand):
    help = (
        "Embed everything with other models while those in use are searched, then switch; "
        "or, with the models in use, embed what is missing, stale or failed. Kill it and run it again at will. "
        "See docs/models.md."
    )
    usages = (
        f"{OF_MODEL} {OF_PART} [--workers] [--batch]",
        f"{OF_MODEL} {OF_PART} --dry-run",
        "--cancel [--yes | --dry-run]",
        "--prune [--yes | --dry-run]",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        model = parser.add_argument_group("the model (default: what the settings name)")
        model.add_argument("--model", default="", help="a model's name, or the folder of a local model")
        model.add_argument("--provider", default="", choices=["", *PROVIDERS], help="where the model runs")
        model.add_argument("--dimensions", type=int, default=0, help="for models that can shorten their vectors")
        model.add_argument(
            "--token-model", default="", help="whose token vectors are compared: a folder, all-MiniLM-L6-v2, or none"
        )
        model.add_argument("--base-url", default="", help="the endpoint (default: EMBEDDING_BASE_URL)")
        part = parser.add_argument_group("a part only")
        part.add_argument("--user", help='only conversations of this user, or of "space 7"')
        part.add_argument("--conversation", type=int, help="only this conversation")
        part.add_argument("--since", type=moment, help="only conversations changed since this date, such as 2026-01-31")
        part.add_argument("--only", choices=DEFECTS, help="only turns in this state")
        parser.add_argument("--workers", type=int, default=config.workers, help="number of processes that embed")
        parser.add_argument(
            "--batch", action="store_true", help="by the provider's Batch API, where it has one: cheaper, within a day"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="change nothing: show what would be done, and what it would cost"
        )
        parser.add_argument("--cancel", action="store_true", help="discard the space that is being built")
        parser.add_argument("--prune", action="store_true", help="delete the spaces that are no longer in use")
        parser.add_argument("--yes", action="store_true", help="do not ask before --cancel and --prune")

    def handle(self, *args: Any, **options: Any) -> None:
        self._told_at = float("-inf")
        try:
            if options["cancel"]:
                self._cancel(options)
            elif options["prune"]:
                self._prune(options)
            elif options["dry_run"]:
                self._estimate(options)
            else:
                self._reembed(options)
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped. Run the same command again to go on from here.", returncode=INTERRUPTED
            ) from None

    def _cancel(self, options: dict[str, Any]) -> None:
        space = building_space()
        if space is None:
            raise InvalidInput("No space is being built: there is nothing to cancel.")
        line = f"Will be given up, for `{COMMAND} reembed --prune` to delete: {space}, {count_rows(space):,} rows"
        if options["dry_run"]:
            self.stdout.write(f"{line}. Nothing was changed.")
            return
        self.confirm([line], refusal="Nothing was changed.", is_agreed=options["yes"])
        stop_building(space)
        self.stdout.write(f"{space} is no longer built; `{COMMAND} reembed --prune` deletes what it holds.")

    def _prune(self, options: dict[str, Any]) -> None:
        spaces = retired_spaces()
        if not spaces:
            self.stdout.write("There is no space to prune.")
            return
        lines = [f"Will be deleted for good: {space}, {count_rows(space):,} rows" for space in spaces]
        if options["dry_run"]:
            self.stdout.write("\n".join([*lines, "Nothing was changed."]))
            return
        self.confirm(lines, refusal="Nothing was deleted.", is_agreed=options["yes"])
        for space in spaces:
            self.stdout.write(f"{prune(space, tell=self._say):,} rows of {space} are deleted.")

    def _selected(self, options: dict[str, Any]) -> tuple[SourceSelection, tuple[Defect, ...]]:
        """Return the part of all archives that the options name."""
        archive_id = archive_named(options["user"]).pk if options["user"] else None
        # The conversation's source; -1, which matches none, for an unknown conversation.
        conversation_id = options["conversation"]
        if conversation_id is None:
            source_id = None
        else:
            source_ids = Source.objects.filter(kind=KIND, object_id=conversation_id).values_list("pk", flat=True)
            source_id = source_ids.first() or -1
        selection = SourceSelection(archive_id, source_id, options["since"])
        return selection, (options["only"],) if options["only"] else DEFECTS

    def _estimate(self, options: dict[str, Any]) -> None:
        selection, defects = self._selected(options)
        target = target_options(**{name: options[name] for name in MODEL_OPTIONS})
        # `active_space` would make the space of a new database.
        active = EmbeddingSpace.objects.filter(is_active=True).first() or EmbeddingSpace(pk=0)
        key = space_key(target)
        space = EmbeddingSpace.objects.filter(**key).first()
        copies = space != active and all(getattr(active, name) == key[name] for name in SENTENCE_FIELDS)
        if space == active:
            sources = select_active(active, selection, defects, mark=False)
        else:
            sources = select_building(space or EmbeddingSpace(pk=0), selection, defects)
        expected = estimate(sources, target=space, active=active)
        for line in estimate_lines(expected, target, copies_sentences=copies):
            self.stdout.write(line)

    def _reembed(self, options: dict[str, Any]) -> None:
        selection, defects = self._selected(options)
        if options["workers"] < 1:
            raise InvalidInput(f"--workers {options['workers']} is too small: use 1 or more.")
        target = target_options(**{name: options[name] for name in MODEL_OPTIONS})
        checked_embedder(target, dimensions=options["dimensions"])
        active = active_space()
        space = space_of(target)
        started = time.monotonic()
        self._say(f"{'Refreshing' if space == active else 'Building'} {space}")
        if options["batch"]:
            select = select_active if space == active else select_building
            embed_in_batches(selected(partial(select, space, selection, defects)), space, tell=self._say)
        workers = options["workers"]
        if space == active:
            totals = refresh(space, selection, defects, workers=workers, show=self._show)
        elif selection.is_everything and defects == DEFECTS:
            totals = change_over(space, workers=workers, show=self._show, tell=self._say)
        else:
            totals = build(space, selection, defects, workers=workers, show=self._show)
        seconds = time.monotonic() - started
        if sys.stderr.isatty():
            self.stderr.write("")
        self.stdout.write(
            f"{totals.sources:,} sources, {totals.items:,} items embedded, {totals.computed:,} embeddings "
            f"computed, {totals.failed:,} items refused, {duration(seconds)}."
        )
        if totals.busy:
            self.stdout.write(f"{totals.busy:,} sources are being worked on by another process.")
        if space != active:
            self._print_next_steps(space, active, partly=not selection.is_everything or defects != DEFECTS)

    def _print_next_steps(self, space: EmbeddingSpace, old: EmbeddingSpace, *, partly: bool) -> None:
        if partly:
            self.stdout.write(
                "Only a part was asked for: search goes on with the model it had. Run without the limits."
            )
            return
        self.stdout.write(f"Search uses {space} from now on.")
        self.stdout.write(f"The old one, {old}, is kept; `{COMMAND} reembed --prune` deletes it.")
        self.stdout.write(f"To have the settings say the same: {' '.join(settings_for(space))}")

    def _show(self, progress: ReembedProgress) -> None:
        if sys.stderr.isatty():
            self.stderr.write(f"\r\033[K{progress.line()}", ending="")
        elif time.monotonic() >= self._told_at + QUIET_S:
            self._told_at = time.monotonic()
            self._say(progress.line())

    def _say(self, line: str) -> None:
        self.stderr.write(line)
        self.stderr.flush()
