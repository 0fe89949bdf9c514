"""HTML of pages without the line breaks of their templates."""

import re


def flat(html: str) -> str:
    """Return HTML with each tag on one line, its attributes apart by one blank, and no line break next to a tag."""
    tags = re.sub(r"<[^<>]+>", lambda tag: " ".join(tag[0].split()).replace(" >", ">"), html)
    return re.sub(r"\s*\n\s*(?=<)|(?<=>)\s*\n\s*", "", tags)
