"""`manage.py conversation_search --query Q --user U`: search from a terminal."""

import json
from argparse import ArgumentParser
from typing import Any

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller, SpaceName, acting_as
from convmemory.accounts.users import user_named
from convmemory.conversations.filters import FILTER_USAGE, add_filter_arguments, filters_of
from convmemory.core.commands import ArchiveCommand
from convmemory.core.program import COMMAND
from convmemory.core.text import one_line
from search.indexing.status import index_status
from search.schemas import SearchPage
from search.searching import MODES, TURNS_ALONE, SearchQuery, parse_scope, search


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
            document = SearchPage.from_orm(results).model_dump(mode="json") | {"failed": failed}
            self.stdout.write(json.dumps(document, ensure_ascii=False, indent=2))
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
