"""The wheel contains the product, whole and alone, and finds its files and a data folder without a checkout."""

import os
import subprocess
import sys
from configparser import ConfigParser
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

import convmemory
from convmemory.core.processes.confinement import landlock_version

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("convmemory", "memory", "search", "summaries")
FILES = ("templates", "static", "locale")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it as `pip install .` does, with the build backend from the configured index."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def metadata(wheel: Path, name: str) -> bytes:
    with ZipFile(wheel) as archive:
        (path,) = (path for path in archive.namelist() if path.endswith(f".dist-info/{name}"))
        return archive.read(path)


def test_wheel_contains_every_file_of_the_product_and_no_other(wheel: Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES, *FILES]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    expected = {f"convmemory/{name}" if name.startswith(FILES) else name for name in listing}
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert (names - expected, expected - names) == (set(), set())
    assert {Path(name).suffix for name in names} > {".html", ".css", ".js", ".mo", ".sql", ".svg", ".woff2"}


def test_wheel_has_one_command_and_the_requirements(wheel: Path) -> None:
    scripts = ConfigParser()
    scripts.read_string(metadata(wheel, "entry_points.txt").decode())
    assert dict(scripts["console_scripts"]) == {"convmemory": "convmemory.__main__:main"}
    project = message_from_bytes(metadata(wheel, "METADATA"))
    assert (project["Name"], project["Version"]) == ("convmemory-server", convmemory.__version__)
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert len(project.get_all("Requires-Dist", [])) == len([line for line in lines if not line.startswith("#")])


def test_installed_package_has_its_files_and_data_folder_of_user(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {name: value for name, value in os.environ.items() if name != "CONVMEMORY_VAR"}
    program = (
        "from django.conf import settings; from convmemory.core import program\n"
        "(templates,), (static,) = settings.TEMPLATES[0]['DIRS'], settings.STATICFILES_DIRS\n"
        "assert (templates / 'base.html').is_file() and (static / 'css' / 'tokens.css').is_file()\n"
        "assert program.command()[1:] == ['-m', 'convmemory'] and program.COMMAND == 'convmemory'\n"
        "print(settings.VAR_DIR)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "site"), "XDG_DATA_HOME": "",
                           "DJANGO_SETTINGS_MODULE": "convmemory.settings"},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == str(tmp_path / ".local/share/convmemory-server"), done.stderr


def test_confined_process_of_installed_package_reads_packages_but_no_data(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "site" / "beside.py").write_text("")
    (tmp_path / "key").write_text("secret")
    program = (
        "import sys; from convmemory.core.processes import confinement\n"
        "sys.path.append(sys.argv[1]); confinement.confine_this_process(confinement.Access())\n"
        "import beside\n"
        "try: open(f'{sys.argv[1]}/key')\n"
        "except PermissionError: print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path / "site", capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("refused\n" if landlock_version() else "")
