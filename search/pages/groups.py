"""Groups the hits of the search page by conversation and document, in the order of each group's best hit."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, get_args
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from convmemory.accounts.callers import SpaceName
from convmemory.conversations.models import project_name
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.core.marks import Mark
from convmemory.core.text import one_line
from search.pages.snippets import Piece, mark_words, show_marks, without_markup
from search.ranking.relevance import RELATED_RELEVANCE, STRONG_RELEVANCE
from search.results.hits import Hit, SectionPlace
from search.results.overturned import Overturning
from search.searching import Comparable

QUESTION_CHARS = 200
LIKE_CHARS = 300
_WORD = re.compile(r"[^\W_]+")
SHOWN_PER_GROUP = 3
REASONS = {
    "words": _("It contains words of the query."),
    "words nearby": _("The turns next to it contain words of the query."),
    "passage": _("One passage means the same."),
    "turn": _("The whole means the same."),
    "late interaction": _("Word by word, its meaning is near."),
    "reranker": _("A second, slower comparison put it here."),
}
"""Explains each feature that speaks for a hit."""

Band = Literal["strong", "related", "less likely"]
BANDS: tuple[Band, ...] = get_args(Band)

# These guess where a search has no fitted relevance although the model has, for example in documents alone: what is
# guessed is never strong.
RELATED_SHARE = 0.45  # of the best hit's score
RELATED_COSINE = 0.30


class Scored(Comparable, Protocol):
    """The values of a hit that decide its band."""

    @property
    def matched(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class HitView:
    """A hit in the list: `key` names it in the page's URL, `heading` is its question or its headings.

    `percent` is its similarity; `likelihood` is how many of 100 such hits answer, if that is known. `like_url` is the
    address of a search for what means the same.
    """

    key: str
    url: str
    preview_url: str
    heading: tuple[Piece, ...]
    passage: tuple[Piece, ...]
    band: Band | None
    band_name: str
    reasons: tuple[str, ...]
    percent: int
    likelihood: int | None
    created_at: datetime
    place: str
    object_id: int
    number: int
    is_section: bool
    like_url: str = ""
    mark: Mark | None = None
    overturned: Overturning | None = None

    @property
    def says_otherwise(self) -> str:
        """Return which turn decides otherwise, counted from one."""
        if self.overturned is None:
            return ""
        words = gettext("Turn %(number)s says otherwise:")
        if self.overturned.conversation_id != self.object_id:
            words = gettext("Turn %(number)s of another conversation says otherwise:")
        return words % {"number": self.overturned.turn_number + 1}


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The hits in one conversation or document, best first: `shown` at once, `more` when unfolded."""

    key: str
    title: str
    agent: str
    project: str
    project_name: str
    created_at: datetime
    is_document: bool
    shown: tuple[HitView, ...]
    more: tuple[HitView, ...]
    space: SpaceName | None = None

    @property
    def band(self) -> Band | None:
        return self.shown[0].band

    @property
    def count(self) -> int:
        return len(self.shown) + len(self.more)

    @property
    def more_label(self) -> str:
        """Return the words that unfold the further hits."""
        if all(view.band == "less likely" for view in self.more):
            return label_of_unlikely(len(self.more))
        return gettext("+%(more)s more here") % {"more": len(self.more)}


def label_of_unlikely(count: int) -> str:
    """Return the words that unfold the less likely results."""
    return ngettext("Show %(count)s less likely", "Show %(count)s less likely", count) % {"count": count}


def silence(words: str, *, is_waiting: bool) -> str:
    """Return the sentence shown instead of hits none of which is likely to answer."""
    if is_waiting:
        return gettext("Nothing yet seems to answer “%(q)s”") % {"q": words}
    return gettext("Nothing here seems to answer “%(q)s”") % {"q": words}


def group_hits(hits: Sequence[Hit], box: SearchBox, *, is_calibrated: bool, asked: str) -> list[HitGroup]:
    """Group the hits by conversation or document, in the order of each group's best hit.

    In headings the words `asked` for are marked.
    """
    best = max((hit.score for hit in hits), default=0.0)
    by_home: dict[str, list[Hit]] = {}
    for hit in hits:
        kind = "document" if isinstance(hit.where, SectionPlace) else "conversation"
        by_home.setdefault(f"{kind}-{hit.object_id}", []).append(hit)
    groups: list[HitGroup] = []
    for home, of_home in by_home.items():
        first = of_home[0]
        views = tuple(view_hit(hit, box, best, asked, is_calibrated=is_calibrated) for hit in of_home)
        # At once are shown those that are not less likely, if there are any.
        shown = (tuple(view for view in views if view.band != "less likely") or views)[:SHOWN_PER_GROUP]
        groups.append(
            HitGroup(
                key=home,
                title=first.title,
                agent=first.agent,
                project=first.project,
                project_name=project_name(first.project),
                created_at=max(hit.created_at for hit in of_home),
                is_document=isinstance(first.where, SectionPlace),
                shown=shown,
                more=tuple(view for view in views if view not in shown),
                space=first.space,
            )
        )
    return groups


def by_band(groups: Iterable[HitGroup]) -> tuple[list[HitGroup], list[HitGroup]]:
    """Split the groups into those to show first and the less likely ones, each in their order."""
    groups = list(groups)
    unlikely = [group for group in groups if group.band == "less likely"]
    return [group for group in groups if group.band != "less likely"], unlikely


BAND_NAMES = {
    "strong": _("strong"),
    "related": _("related"),
    "less likely": _("less likely"),
}


def like_url(heading: str, passage: str) -> str:
    """Return the address of a search by meaning for a hit's own words, none of which can be an operator."""
    words = " ".join(_WORD.findall(f"{heading} {passage}"))
    return f"{reverse('search')}?{urlencode({'q': words[:LIKE_CHARS], 'mode': 'semantic'})}" if words else ""


def view_hit(hit: Hit, box: SearchBox, best: float, asked: str, *, is_calibrated: bool) -> HitView:
    """Return one hit for the list; `best` is the best score of the query, `asked` its words to mark."""
    where, number, object_id = hit.where, hit.number, hit.object_id
    is_section = isinstance(where, SectionPlace)
    title = " > ".join(where.heading_path) if isinstance(where, SectionPlace) else hit.heading
    heading = one_line(title, QUESTION_CHARS)
    is_repeated = not is_section and hit.passage.rstrip("…") in heading
    is_call = not isinstance(where, SectionPlace) and where.is_call
    url = section_url(hit, box) if is_section else turn_url(hit, box)
    query = url.partition("?")[2].partition("#")[0]
    name = "preview-section" if is_section else "preview-turn"
    return HitView(
        key=f"{'s' if is_section else 't'}{object_id}-{number}",
        url=url,
        preview_url=f"{reverse(name, args=[object_id])}?{query}",
        heading=mark_words(without_markup(heading), asked),
        passage=mark_words(without_markup(hit.turn.outcome.conclusion), asked)
        if is_repeated
        else show_marks(hit.passage, hit.marks, is_call=is_call),
        band=(band := band_of(hit, best, is_calibrated=is_calibrated)),
        band_name=str(BAND_NAMES[band]) if band else "",
        reasons=tuple(str(REASONS.get(name, name)) for name in hit.matched),
        percent=round((hit.similarity or 0) * 100),
        likelihood=None if hit.relevance is None else round(hit.relevance * 100),
        created_at=hit.created_at,
        place=place_of(hit),
        object_id=object_id,
        number=number,
        is_section=is_section,
        like_url=like_url(heading, "" if is_repeated else hit.passage),
        mark=None if isinstance(where, SectionPlace) else where.mark,
        overturned=None if isinstance(where, SectionPlace) else where.overturned,
    )


def place_of(hit: Hit) -> str:
    """Return the hit's place in its conversation or document, counted from one."""
    if not isinstance(hit.where, SectionPlace):
        return gettext("turn %(number)s") % {"number": hit.number + 1}
    if hit.where.page:
        return gettext("page %(number)s") % {"number": hit.where.page}
    return gettext("section %(number)s") % {"number": hit.number + 1}


def section_url(hit: Hit, box: SearchBox) -> str:
    """Return the URL of the document at the hit's section, with its passage highlighted."""
    parameters = {"section": hit.number, "from": hit.passage_start, "to": hit.passage_end} | box.parameters
    return f"{reverse('document', args=[hit.object_id])}?{urlencode(parameters, doseq=True)}#section-{hit.number}"


def turn_url(hit: Hit, box: SearchBox) -> str:
    """Return the URL of the conversation at the hit's turn, with its passage highlighted."""
    parameters = {"turn": hit.number} | box.parameters
    if hit.turn.passage_message_id is not None:
        parameters |= {
            "m": hit.turn.passage_message_id,
            "part": hit.turn.passage_part,
            "from": hit.passage_start,
            "to": hit.passage_end,
        }
    address = reverse("conversation", args=[hit.object_id])
    return f"{address}?{urlencode(parameters, doseq=True)}#turn-{hit.number}"


def band_of(hit: Scored, best_score: float, *, is_calibrated: bool = True) -> Band | None:
    """Return the band of a hit, by its relevance.

    Without a relevance, a hit is related at most, by its words or if its score is near the best; if the model is not
    calibrated either, it has no band, because the cosines of each model have a scale of their own.
    """
    if hit.relevance is None:
        if is_calibrated:
            share = hit.score / best_score if best_score > 0 else 0.0
            if "words" in hit.matched or (share >= RELATED_SHARE and (hit.similarity or 0) >= RELATED_COSINE):
                return "related"
            return "less likely"
        return None
    if hit.relevance >= STRONG_RELEVANCE:
        return "strong"
    return "related" if hit.relevance >= RELATED_RELEVANCE else "less likely"
