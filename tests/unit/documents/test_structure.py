"""Sections: together they are the whole text, they follow headings and pages, and none is too long or too short."""

from hypothesis import given
from hypothesis import strategies as st

from convmemory.documents.structure import SECTION_CHARS, Block, cut_sections, path_at

SENTENCE = "The quick brown fox jumps over the lazy dog and runs away into the dark wood. "
BLOCKS = st.lists(
    st.builds(
        Block,
        st.text(st.sampled_from("ab .\n"), max_size=400),
        level=st.integers(0, 3),
        page=st.one_of(st.none(), st.integers(1, 3)),
    ),
    max_size=30,
)


@given(BLOCKS)
def test_sections_are_whole_text(blocks: list[Block]) -> None:
    sections = cut_sections(blocks, max_chars=100)
    assert "".join(section.text for section in sections) == "".join(block.text for block in blocks)
    starts = [section.start for section in sections]
    assert starts == [0, *(section.end for section in sections[:-1])][: len(starts)]
    assert all(len(section.text) <= 100 for section in sections)


def test_headings_make_paths() -> None:
    blocks = [
        Block("Guide\n", level=1),
        Block(SENTENCE * 4),
        Block("Soil\n", level=2),
        Block(SENTENCE * 4),
        Block("Tools\n", level=1),
        Block(SENTENCE * 4),
    ]
    assert [section.path for section in cut_sections(blocks)] == [("Guide",), ("Guide", "Soil"), ("Tools",)]


def test_heading_without_text_joins_next_section() -> None:
    blocks = [Block("Guide\n", level=1), Block("Soil\n", level=2), Block(SENTENCE * 4)]
    (section,) = cut_sections(blocks)
    assert section.path == ("Guide", "Soil")
    assert section.text.startswith("Guide\nSoil\n")


def test_joined_sections_keep_their_headings() -> None:
    answers = ["Water at dawn. " * 4, "Never feed ferns. " * 4, "Cut in March. " * 5]
    blocks = [Block("FAQ\n", level=1)]
    for number, answer in enumerate(answers):
        blocks += [Block(f"Question {number}?\n", level=2), Block(answer)]
    sections = cut_sections(blocks)
    assert len(sections) < len(answers)
    for number, answer in enumerate(answers):
        (home,) = [section for section in sections if answer in section.text]
        offset = home.text.index(answer)
        assert path_at(home.path, home.headings, offset) == ("FAQ", f"Question {number}?")
    parts = cut_sections(blocks, max_chars=40)
    assert parts[-1].path == ("FAQ", "Question 2?")


def test_page_begins_section() -> None:
    blocks = [Block("one two three. ", page=1), Block("four five six.", page=2)]
    assert [(section.page, section.start) for section in cut_sections(blocks)] == [(1, 0), (2, 15)]


def test_long_section_is_cut_into_equal_parts_where_sentences_end() -> None:
    parts = cut_sections([Block(SENTENCE * 45)])
    assert len(parts) == 3
    assert max(len(part.text) for part in parts) <= SECTION_CHARS
    assert min(len(part.text) for part in parts) > SECTION_CHARS / 2
    assert all(part.text.endswith("wood. ") for part in parts)
