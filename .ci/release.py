"""Make the release that heads CHANGELOG.md: `make release` after *Unreleased* was renamed to `[VERSION] - DATE`.

The section is the release's notes; it says what an operator does before and after the update. The version is written
into the files that need it, both packages are built into `dist/` and checked, and the commit is tagged with the notes.
Nothing is pushed.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?\n(.*?)(?=^## \[|\Z)", re.M | re.S)
STEPS = ("### Before the update", "### After the update")
PLACES = (
    ("convmemory/__init__.py", r'__version__ = "(.+)"'),
    ("convmemory/push/pyproject.toml", r'(?m)^version = "(.+)"'),
    ("deploy/kubernetes/kustomization.yaml", r'newTag: "(.+)"'),
    ("README.md", r"\*\*Version ([\d.]+)\.\*\*"),
)
PACKAGES = {"convmemory_server": ".", "convmemory_push": "convmemory/push"}


def newest_release(changelog: str) -> tuple[str, str]:
    """Return the version and the notes at the head. Raises: ValueError if they are not those of a new release."""
    (version, date, notes), (earlier, _, _) = SECTION.findall(changelog)[:2]
    if not date:
        raise ValueError(f"CHANGELOG.md begins with [{version}]: rename it to the new version and its date.")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or _numbers(version) <= _numbers(earlier):
        raise ValueError(f"{version} is no version after {earlier}.")
    if missing := [step for step in STEPS if step not in notes]:
        raise ValueError(f"The section [{version}] lacks {' and '.join(missing)}, if only with 'Nothing.'")
    return version, notes.strip()


def write_version(root: Path, version: str) -> None:
    for name, pattern in PLACES:
        text = (root / name).read_text(encoding="utf-8")
        match = re.search(pattern, text)
        assert match, name
        (root / name).write_text(text[: match.start(1)] + version + text[match.end(1) :], encoding="utf-8")


def main() -> None:
    try:
        version, notes = newest_release((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    except ValueError as error:
        sys.exit(str(error))
    if changed := [line for line in _run("git", "status", "--porcelain").splitlines() if "CHANGELOG.md" not in line]:
        sys.exit("Commit these changes first, without CHANGELOG.md:\n" + "\n".join(changed))
    if _run("git", "tag", "--list", f"v{version}"):
        sys.exit(f"The tag v{version} exists.")
    write_version(ROOT, version)
    _run(sys.executable, "-m", "convmemory.push.plugins", "deploy/plugins")
    for name, folder in PACKAGES.items():
        _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", folder)
        check_wheel(ROOT / "dist" / f"{name}-{version}-py3-none-any.whl")
    _run("git", "commit", "--all", "--message", f"release: {version}")
    _run("git", "tag", "--annotate", "--cleanup=verbatim", f"v{version}", "--message", f"{version}\n\n{notes}")
    print(
        f"Built into dist/ and tagged: v{version}. To publish it: `git push origin HEAD v{version}`, then upload dist/."
    )


def check_wheel(wheel: Path) -> None:
    """Install a wheel without what it needs, and run its command's module as far as that goes."""
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, str(wheel))
        package = "convmemory_push" if "push" in wheel.name else "convmemory"
        _run(
            sys.executable,
            "-m",
            package,
            "--help",
            cwd=Path(folder),
            env=os.environ | {"CONVMEMORY_VAR": f"{folder}/var"},
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _run(*command: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
