"""`manage.py models [PATH...]`: list the available models, which of them fit, and the cost of switching to each."""

import json
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.template.defaultfilters import filesizeformat

from convmemory.core.commands import ArchiveCommand
from convmemory.core.config import config
from convmemory.core.program import COMMAND
from convmemory.embeddings.embedder import ModelCard
from convmemory.embeddings.hub import DOWNLOADED, download, find_on_hub
from convmemory.ops.reembed.model_choices import Choice, list_choices
from convmemory.ops.reembed.progress import duration


class Command(ArchiveCommand):
    help = (
        "List the embedding models that could be used: those that come along, the one of the settings, and those "
        "at the paths given (a model's folder, one of its graphs, or a folder of models). See docs/models.md."
    )
    usages = ("[path] [--get [--into] [--yes] [--hub-url]] [--json]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", nargs="*", type=Path, help="a local model, or a folder of models, to list, too")
        parser.add_argument(
            "--get", metavar="ORGANISATION/NAME", help="download this model from huggingface.co, and list it"
        )
        parser.add_argument(
            "--into",
            type=Path,
            default=config.var_dir / DOWNLOADED,
            metavar="FOLDER",
            help="the folder of models in which --get makes one",
        )
        parser.add_argument("--yes", action="store_true", help="accept the licence that --get shows, and download")
        parser.add_argument("--hub-url", default=config.hf_endpoint, help="another hub with the same API")
        parser.add_argument("--json", action="store_true", help="print one JSON array")

    def handle(self, *args: Any, path: list[Path], **options: Any) -> None:
        if name := options["get"]:
            folder = options["into"].expanduser() / name.rpartition("/")[2]
            hub_url = options["hub_url"]
            model = find_on_hub(name, hub_url=hub_url)
            lines = [
                f"{name} at commit {model.commit[:12]}: {len(model.files)} files, {_size(model.size)}",
                f"Licence: {model.licence or 'its author names none'} ({hub_url}/{name})",
            ]
            self.confirm(lines, refusal="Nothing was downloaded.", is_agreed=options["yes"])
            download(model, folder, hub_url=hub_url)
            path = [*path, folder]
        choices = list_choices(path)
        if options["json"]:
            self.stdout.write(json.dumps([asdict(choice) for choice in choices]))
            return
        for choice in choices:
            self.stdout.write("\n".join(lines_of(choice)))


def lines_of(choice: Choice) -> Iterator[str]:
    """Yield a model's description in a few lines."""
    if choice.card is None:
        yield choice.place or "a model that comes along"
        yield f"    cannot be used: {choice.problem}"
        return
    yield f"{choice.card.model}{' (in use)' if choice.is_active else ''}"
    yield f"    {'; '.join(_facts(choice, choice.card))}"
    if choice.query_prompt or choice.passage_prompt:
        yield f"    prompts: {choice.query_prompt!r} before questions, {choice.passage_prompt!r} before passages"
    if choice.cost:
        time, size = duration(choice.cost.seconds), _size(choice.cost.database_bytes)
        yield (
            f"    a switch: at most {choice.cost.texts:,} texts with some {choice.cost.tokens:,} tokens, "
            f"{time} at that speed, {size} of database in addition to the present vectors"
        )
        yield f"    {COMMAND} reembed --model {shlex.quote(choice.place or choice.card.model)}"


def _facts(choice: Choice, card: ModelCard) -> Iterator[str]:
    yield f"{card.dimensions:,} dimensions"
    yield f"{card.max_tokens:,} tokens at a time"
    yield f"token vectors of {choice.token_model}" if choice.token_model else "no token vectors, so no late interaction"
    if choice.disk_bytes:
        yield f"{_size(choice.disk_bytes)} of weights"
    yield f"{choice.tokens_per_second:,.0f} tokens a second here"


def _size(count: int) -> str:
    return filesizeformat(count).replace("\xa0", " ")
