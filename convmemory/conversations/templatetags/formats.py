"""The formats that can be imported, and the reasons of their importers, for pages."""

from collections.abc import Mapping

from django import template

from convmemory.conversations.importers.registry import KINDS, LABELS, NOTES, FormatNote
from convmemory.conversations.importing.reasons import translated

register = template.Library()
register.filter("translated", translated)

_PROGRAMS = {note.name: note.program for note in NOTES}


@register.filter
def program_name(format: str) -> str:
    """Return the program whose format it is, as people call it."""
    return _PROGRAMS.get(format, format)


@register.simple_tag
def formats_by_kind() -> Mapping[str, list[FormatNote]]:
    """Return what is said of each format, by kind."""
    return {kind: [note for note in NOTES if note.kind == kind] for kind in KINDS}


@register.simple_tag
def format_labels() -> Mapping[str, FormatNote]:
    """Return the formats by the names that people type."""
    return LABELS
