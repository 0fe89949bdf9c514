"""Test what `make release` (.ci/release.py) takes from CHANGELOG.md, and where it writes the version."""

import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import convmemory

ROOT = Path(__file__).resolve().parents[2]
SPEC = spec_from_file_location("release", ROOT / ".ci" / "release.py")
assert SPEC
assert SPEC.loader
release = module_from_spec(SPEC)
SPEC.loader.exec_module(release)

STEPS = "### Before the update\n\nNothing.\n\n### After the update\n\nNothing.\n"
EARLIER = "\n## [0.2.0] - 2026-11-25\n\nWords.\n"


def test_head_of_changelog_is_the_release_and_its_notes() -> None:
    changelog = f"# Changelog\n\n## [0.10.0] - 2027-01-02\n\n{STEPS}{EARLIER}"
    assert release.newest_release(changelog) == ("0.10.0", STEPS.strip())


@pytest.mark.parametrize(
    ("head", "complaint"),
    [
        (f"[Unreleased]\n\n{STEPS}", "begins with [Unreleased]"),
        (f"[0.2.0] - 2027-01-02\n\n{STEPS}", "no version after 0.2.0"),
        (f"[next] - 2027-01-02\n\n{STEPS}", "next is no version"),
        ("[0.3.0] - 2027-01-02\n\n### Before the update\n", "lacks ### After the update"),
    ],
)
def test_head_that_is_no_new_release_is_refused(head: str, complaint: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011
        release.newest_release(f"## {head}{EARLIER}")
    assert complaint in str(refusal.value)


def test_changelog_says_what_operators_do_about_the_next_update() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert all(step in release.SECTION.findall(text)[0][2] for step in release.STEPS)


def test_version_is_written_where_it_is_needed(tmp_path: Path) -> None:
    for name, pattern in release.PLACES:
        assert convmemory.__version__ in (ROOT / name).read_text(encoding="utf-8"), pattern
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    release.write_version(tmp_path, "9.8.7")
    for name, _ in release.PLACES:
        text = (ROOT / name).read_text(encoding="utf-8").replace(f'"{convmemory.__version__}"', '"9.8.7"')
        changed = text.replace(f"**Version {convmemory.__version__}.**", "**Version 9.8.7.**")
        assert (tmp_path / name).read_text(encoding="utf-8") == changed
