"""Keys in documents: hidden in the text at the same places, named in the notes, or left alone."""

import json
from pathlib import Path

import pytest

from convmemory.documents.converters.base import ConvertLimits
from convmemory.documents.converting import KeysHidden, mark_of, masked_keys, write_sections
from convmemory.documents.structure import SectionDraft
from tests.support.planted_keys import planted_keys

PLANTED = planted_keys()


def convert(folder: Path, text: str, **limits: bool) -> tuple[dict[str, object], list[dict[str, object]]]:
    file, target = folder / "upload", folder / "sections"
    file.write_text(text, encoding="utf-8")
    write_sections(path=file, name="notes.md", target=target, limits=ConvertLimits(**limits))
    heading, *sections = map(json.loads, target.read_text(encoding="utf-8").splitlines())
    return heading, sections


@pytest.mark.parametrize("kind", sorted(PLANTED))
def test_hidden_key_keeps_length_of_text(kind: str) -> None:
    text = f"Before it.\n\n{PLANTED[kind]}\n\nBehind it."
    hidden, count = masked_keys(text)
    assert (count, len(hidden)) == (1, len(text))
    assert hidden.startswith("Before it.")
    assert hidden.endswith("Behind it.")
    assert hidden != text
    assert masked_keys(hidden) == (hidden, 0)


def test_mark_of_hidden_key_names_its_kind_if_it_fits() -> None:
    assert mark_of("github-token", 24) == "[hidden github-token]•••"
    assert mark_of("github-token", 9) == "•" * 9


def test_key_that_two_sections_share_is_hidden_in_both() -> None:
    key = PLANTED["github-token"]
    sections = [SectionDraft((key,), None, 10, f"a {key[:20]}"), SectionDraft((), 2, 32, f"{key[20:]} b")]
    hidden = KeysHidden.of(sections)
    assert hidden.count == 1
    assert [(section.start, section.end, section.page) for section in hidden.sections] == [(10, 32, None), (32, 54, 2)]
    assert not any(piece in str(hidden.sections) for piece in (key[:20], key[20:]))


def test_stored_sections_contain_no_key_unless_hiding_is_off(tmp_path: Path) -> None:
    key = PLANTED["slack-token"]
    text = f"# Notes on {key}\n\nCall it with {key}, and then wait.\n"
    heading, sections = convert(tmp_path, text)
    assert key not in json.dumps([heading, sections])
    assert heading["notes"] == [
        "2 keys, tokens or passwords are hidden in the text; the file itself still holds what it held."
    ]
    assert len("".join(str(section["text"]) for section in sections)) == len(text)
    heading, sections = convert(tmp_path, text, hide_keys=False)
    assert (heading["notes"], key in json.dumps(sections)) == ([], True)
