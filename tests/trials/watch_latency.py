"""Measure the time until a turn appended to a transcript is found: `python -m tests.trials.watch_latency`.

Starts the product on a scratch folder together with `manage.py watch`, appends turns to a session of Claude Code and
asks the API until each is a hit. Prints the seconds of each; ends with 1 where one took longer than 10 s.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from tests.support.installation import ROOT, Installation, running_installation, wait_until
from tests.unit.importers.helpers import assistant_line, user_line

TURNS = 8
GOAL_S = 10.0
WORDS = ("zebrafish", "juniper", "lagoon", "quarry", "tundra", "zephyr", "candle", "harbor")
SESSION = ".claude/projects/-bakery/0c5e2b7a-0000-4000-8000-00000000000a.jsonl"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="convmemory-watch-") as name:
        folder = Path(name)
        with running_installation(folder, {"SAMPLES": "0"}) as installation:
            key = installation.manage("create_api_key", "ada", "--create").split()[-1]
            path = folder / "home" / SESSION
            path.parent.mkdir(parents=True)
            path.touch()
            watcher = _watch(installation, folder / "home")
            try:
                seconds = [_append_and_wait(installation, key, path, number) for number in range(TURNS)]
            finally:
                watcher.terminate()
                watcher.wait()
    print("seconds until a turn was found:", ", ".join(f"{value:.1f}" for value in seconds))
    sys.exit(max(seconds) > GOAL_S)


def _watch(installation: Installation, home: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "manage.py", "watch", "--user", "ada", "--home", str(home), "--yes"]
    environment = installation.environment() | {"CLAUDE_CONFIG_DIR": ""}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


def _append_and_wait(installation: Installation, key: str, path: Path, number: int) -> float:
    word = WORDS[number]
    lines = [user_line(f"u{number}", f"Where is the {word}?"), assistant_line(f"a{number}", f"The {word} is here.")]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    started = time.monotonic()
    wait_until(lambda: _is_found(installation, key, word, number), f"a hit for {word}", 120, pause_s=0.1)
    return time.monotonic() - started


def _is_found(installation: Installation, key: str, word: str, turn: int) -> bool:
    query = urllib.parse.urlencode({"query": f"where is the {word}", "limit": 5})
    request = urllib.request.Request(
        f"{installation.address}/api/v1/conversations/search?{query}", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        hits = json.load(response)["results"]
    return any(hit["turn_number"] == turn and word in hit["user_question"] for hit in hits)


if __name__ == "__main__":
    main()
