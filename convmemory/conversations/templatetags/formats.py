"""The formats that can be imported, for pages."""

from collections.abc import Mapping

from django import template

from convmemory.conversations.importers.registry import KINDS, NOTES, FormatNote

register = template.Library()


@register.simple_tag
def formats_by_kind() -> Mapping[str, list[FormatNote]]:
    """Return what is said of each format, by kind."""
    return {kind: [note for note in NOTES if note.kind == kind] for kind in KINDS}
