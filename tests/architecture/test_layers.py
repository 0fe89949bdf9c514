"""Rules that import-linter cannot check: heavy libraries stay out of light paths, files stay short."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "onnxruntime",
    "onnx",
    "tokenizers",
    "tiktoken",
    "openai",
    "torch",
    "mcp",
    "lxml",
    "pypdfium2",
    "docx",
    "pptx",
    "python_calamine",
)


def test_starting_django_loads_neither_heavy_library_nor_benchmarks() -> None:
    code = (
        "import django, sys; django.setup(); import convmemory.urls; "
        f"print([name for name in {(*HEAVY, 'benchmarks')!r} if name in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env={"DJANGO_SETTINGS_MODULE": "convmemory.settings", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert out.stdout.split() == ["[]"], out.stdout


def test_no_source_file_is_longer_than_600_lines() -> None:
    files = [
        path
        for folder in ("convmemory", "search", "memory", "summaries", "benchmarks", "tests")
        for path in ROOT.glob(f"{folder}/**/*.py")
    ]
    long = {str(path): count for path in files if (count := path.read_text(encoding="utf-8").count("\n")) > 600}
    assert files
    assert not long
