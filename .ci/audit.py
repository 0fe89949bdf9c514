"""Ask the advisory feed whether any pinned package has a known hole, on whatever platform it would be installed.

`python .ci/audit.py LOCK... [-- OPTIONS OF PIP-AUDIT]` exits with 1 where there is one. Where the feed cannot be
reached it says so and exits with 0; once it was reached, everything that goes wrong is a failure.
`PIP_AUDIT_OSV_URL` names another feed; `-- --ignore-vuln ID` accepts a hole that nothing mends yet.
"""

import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections import defaultdict
from pathlib import Path

FEED = "https://api.osv.dev/v1/query"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
REACH_TIMEOUT_S = 5
AUDIT_TIMEOUT_S = 300


def main(arguments: list[str]) -> int:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    locks, options = arguments[:at], arguments[at + 1 :]
    feed = os.environ.get("PIP_AUDIT_OSV_URL", FEED)
    trouble = why_unreachable(feed)
    if trouble:
        print(f"advisory feed not reached: not audited ({feed}: {trouble})")
        return 0
    return audit(files_without_markers(locks), feed, options)


def why_unreachable(feed: str) -> str:
    """What keeps the feed from answering a harmless question; nothing if it answers."""
    question = b'{"package": {"name": "pip", "ecosystem": "PyPI"}, "version": "26.3"}'
    try:
        with urllib.request.urlopen(feed, question, timeout=REACH_TIMEOUT_S) as answer:  # noqa: S310 - a fixed address
            answer.read(1)
    except (urllib.error.URLError, OSError) as error:
        return str(error)
    return ""


def files_without_markers(locks: list[str]) -> list[str]:
    """The pins alone, for every platform and Python; no file names a package twice, which pip-audit refuses."""
    versions: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for lock in locks:
        for name, version in PIN.findall(Path(lock).read_text()):
            versions[name.lower()][version] = None
    if not versions:
        raise SystemExit(f"no pins in {' '.join(locks)}")
    return [
        "".join(f"{name}=={list(found)[place]}\n" for name, found in versions.items() if len(found) > place)
        for place in range(max(map(len, versions.values())))
    ]


def audit(files: list[str], feed: str, options: list[str]) -> int:
    """Run pip-audit over the pins; its exit code."""
    command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", "osv", "--osv-url", feed]
    command += ["--no-deps", "--disable-pip", "--strict", "--progress-spinner", "off", *options]
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        for number, text in enumerate(files):
            path = Path(folder, f"pins-{number}.txt")
            path.write_text(text)
            command += ["--requirement", str(path)]
        return subprocess.run(command, timeout=AUDIT_TIMEOUT_S, check=False).returncode  # noqa: S603 - no shell


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
