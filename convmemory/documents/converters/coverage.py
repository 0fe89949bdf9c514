"""Accounts for the parts of a file: how many a converter read, and which it saw and did not read."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Location = tuple[str, int | str]
"""Where a part is: a unit and its number or name, as ("page", 4) or ("sheet", "Prices")."""

MAX_LOCATIONS = 20
LOCATION_CHARS = 80
ADVICE = {
    "attachment": "Upload them by themselves.",
    "embedded file": "Upload them by themselves.",
    "formula without a stored value": "Open and save the workbook in the program that calculates it.",
    "sheet": "Save the file again in the program that made it.",
    "page": (
        "Run OCR over the file, with `ocrmypdf in.pdf out.pdf` for example, and upload the result. Or the people "
        "who run the server install tesseract and set DOCUMENT_OCR=1."
    ),
}
"""What to do about parts that were not read."""


@dataclass(slots=True)
class Coverage:
    """The parts of one file by kind, named in the singular: "page", "picture", "footnote"."""

    read: Counter[str] = field(default_factory=Counter)
    missed: dict[str, list[Location]] = field(default_factory=lambda: defaultdict(list))

    def miss(self, part: str, unit: str = "", name: int | str = "") -> None:
        """Count a part that was seen and not read."""
        self.missed[part].append((unit, name))

    def rows(self) -> list[dict[str, str | int]]:
        """Return kind, number read and number seen of all parts, for the document's row."""
        kinds = dict.fromkeys([*self.read, *self.missed])
        return [
            {"part": kind, "read": self.read[kind], "total": self.read[kind] + len(self.missed.get(kind, ()))}
            for kind in kinds
            if self.read[kind] or self.missed.get(kind)
        ]

    def notes(self) -> list[str]:
        """Return a sentence for each kind of part that was not read, with count and locations."""
        notes = []
        for part, locations in self.missed.items():
            count = len(locations)
            if not count:
                continue
            subject, reason = f"{count:,} {plural_of(part, count)}", ""
            if part == "page":
                subject, reason = f"{count:,} of {count + self.read[part]:,} pages", ": pictures without text"
            verb = "was" if count == 1 else "were"
            note = f"{subject} {verb} not read{_where(locations)}{reason}."
            notes.append(f"{note} {ADVICE[part]}" if ADVICE.get(part) else note)
        return notes


def plural_of(part: str, count: int) -> str:
    """Return the name of this many parts."""
    if count == 1:
        return part
    head, space, rest = part.partition(" without ")
    if space:
        return f"{plural_of(head, count)}{space}{rest}"
    return f"{part}es" if part.endswith(("x", "s", "ch")) else f"{part}s"


def _where(locations: Iterable[Location]) -> str:
    """Return the locations in order, each once: " (pages 4, 7-9; sheet Prices)"."""
    names: dict[str, dict[int | str, None]] = defaultdict(dict)
    for unit, name in locations:
        if name != "":
            names[unit][name] = None
    groups = []
    for unit, by_name in names.items():
        shown = list(_ranges(by_name))
        more = f" and {len(shown) - MAX_LOCATIONS:,} more" if len(shown) > MAX_LOCATIONS else ""
        listed = ", ".join(shown[:MAX_LOCATIONS]) + more
        groups.append(f"{plural_of(unit, len(by_name))} {listed}" if unit else listed)
    return f" ({'; '.join(groups)})" if groups else ""


def _ranges(names: Iterable[int | str]) -> Iterator[str]:
    """Yield the names, and four or more consecutive numbers as a range."""
    run: list[int] = []
    for name in [*names, ""]:
        if isinstance(name, int) and run and name == run[-1] + 1:
            run.append(name)
            continue
        yield from map(str, run) if len(run) < 4 else (f"{run[0]}-{run[-1]}",)
        run = [name] if isinstance(name, int) else []
        if isinstance(name, str) and name:
            yield name if len(name) <= LOCATION_CHARS else f"{name[:LOCATION_CHARS]}…"
