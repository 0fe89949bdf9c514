"""`manage.py conversation_search --query Q --user U`: search from a terminal."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller, SpaceName, acting_as
from convmemory.accounts.users import user_named
from convmemory.conversations.filters import FILTER_USAGE, add_filter_arguments, filters_of
from convmemory.core.commands import ArchiveCommand
from convmemory.core.program import COMMAND
from convmemory.core.text import one_line
from search.indexing.status import index_status
from search.searching import MODES, TURNS_ALONE, Hit, SearchQuery, SearchResults, parse_scope, search


class Command(ArchiveCommand):
    help = "Find the turns in which something was said. The filters are those of the API."
    usages = (f"--query --user [--limit] [--mode] [--scope] {FILTER_USAGE} [--space] [--cursor] [--json]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--query", required=True, help="a few words, or a whole question")
        parser.add_argument("--user", required=True, help="the user whose archive is searched")
        parser.add_argument("--limit", type=int, default=10, help="hits a page, 1 to 50 (default: 10)")
        parser.add_argument("--mode", choices=MODES, default="hybrid", help="default: hybrid")
        parser.add_argument("--scope", default="", help="any of user,assistant,thinking,tool")
        add_filter_arguments(parser)
        parser.add_argument("--space", default="", help="mine, or the number or name of a space; without it, all")
        parser.add_argument("--cursor", default="", help="cursor of the next page")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        query = SearchQuery(
            text=options["query"],
            limit=options["limit"],
            mode=options["mode"],
            scope=parse_scope(options["scope"]),
            filters=filters_of(options, kinds=TURNS_ALONE),
            has_operators=True,
        )
        caller = Caller.of(user_named(options["user"]))
        with acting_as(caller):
            results = search(caller=caller, chosen=options["space"], query=query, cursor=options["cursor"])
            failed = index_status(caller=caller).failed
        for access in caller.chosen(options["space"]):
            record(Action.READ, what="search", person_id=None, about_id=access.archive_id)
        if options["json"]:
            document = as_document(results, failed=failed)
            self.stdout.write(json.dumps(document, cls=DjangoJSONEncoder, ensure_ascii=False, indent=2))
        else:
            # A note about content that could not be indexed.
            notes = []
            if failed:
                notes.append(f"{failed} could not be indexed: `{COMMAND} doctor` says why.")
            for note in (*results.notes, *notes):
                self.stderr.write(note)
            for title in results.titles:
                self.stdout.write(f"{title.kind} {title.title}")
                self.stdout.write(f"  {title.updated_at:%Y-%m-%d} {title.agent}  {title.url}{_from(title.space)}\n")
            for hit in results.hits:
                similarity = "by words" if hit.similarity is None else f"{hit.similarity:.0%}"
                self.stdout.write(f"{similarity} - {hit.title}")
                self.stdout.write(f"  {one_line(hit.heading, 110)}")
                if hit.turn.mark:
                    self.stdout.write(f"  {hit.turn.mark}")
                self.stdout.write(f"  > {one_line(hit.passage, 160)}")
                self.stdout.write(f"  {hit.created_at:%Y-%m-%d} {hit.agent}  {hit.url}{_from(hit.space)}\n")
            if not results.hits and not results.titles:
                self.stdout.write("Nothing found.")
            if results.next_cursor:
                self.stdout.write(f"More: --cursor {results.next_cursor}")


def _from(space: SpaceName | None) -> str:
    return f"  in the space {space.name} ({space.id})" if space else ""


def as_document(results: SearchResults, *, failed: int) -> dict[str, Any]:
    """Return the results in the format of the API's answer, with the number of failed items."""
    return {
        "titles": [
            {**asdict(title), "url": title.url, "space": title.space and title.space._asdict()}
            for title in results.titles
        ],
        "results": [hit_document(hit) for hit in results.hits],
        "next_cursor": results.next_cursor,
        "notes": list(results.notes),
        "answered": results.answered,
        "reason": results.reason,
        "pending": results.pending,
        "failed": failed,
    }


def hit_document(hit: Hit) -> dict[str, Any]:
    return {
        "conversation_id": hit.object_id,
        "conversation_title": hit.title,
        "turn_number": hit.number,
        "message_id": hit.turn.message_id,
        "similarity": hit.similarity,
        "score": hit.score,
        "relevance": hit.relevance,
        "user_question": hit.heading,
        "passage": hit.passage,
        "marks": hit.marks,
        "outcome": asdict(hit.turn.outcome),
        "passage_message_id": hit.turn.passage_message_id,
        "passage_part": hit.turn.passage_part,
        "passage_start": hit.passage_start,
        "passage_end": hit.passage_end,
        "matched": hit.matched,
        "created_at": hit.created_at,
        "agent": hit.agent,
        "project": hit.project,
        "source_id": hit.source_id,
        "kind": hit.kind,
        "mark": hit.turn.mark and asdict(hit.turn.mark),
        "further": [],
        "space": hit.space and hit.space._asdict(),
        "url": hit.url,
    }
