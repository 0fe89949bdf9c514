"""Imports one very large Claude Code session, made by repeating a real one with new ids.

`python -m tests.trials.large_transcript FILE [--megabytes 200] [--profile]`. Prints messages and megabytes a second and
the peak of the process's memory; ends with 1 where that is above 400 MB. Uses the database of the settings; what it
stored is deleted at the end.
"""

import argparse
import cProfile
import os
import pstats
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import django

from convmemory.accounts.callers import Caller
from convmemory.core import acting

MOST_MB = 400
SESSION = "0c5e2b7a-0000-4000-8000-00000000000a.jsonl"
_IDS = re.compile(rb'"(uuid|parentUuid|id|tool_use_id|messageId|leafUuid)":"([^"]{4})[^"]{4}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convmemory.settings")
    django.setup()
    acting.process_acts_as(acting.SCHEMA)
    from django.contrib.auth.models import User

    from convmemory.conversations.importing.runner import import_paths

    User.objects.filter(username="large-transcript").delete()
    owner = User.objects.create_user("large-transcript")
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as folder:
        path = _repeated(options.file, Path(folder) / SESSION, options.megabytes * 1024**2)
        size = path.stat().st_size / 1e6
        started, used = time.perf_counter(), time.process_time()
        if options.profile:
            profile.enable()
        report = import_paths(caller=Caller.of(owner), paths=[path])
        profile.disable()
        seconds, used = time.perf_counter() - started, time.process_time() - used
    count, peak = report.total("added"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} messages, {size:,.0f} MB in {seconds:.1f} s ({used:.1f} s of them in this process): "
          f"{count / seconds:,.0f} messages/s, {size / seconds:.1f} MB/s; peak {peak:.0f} MB")  # fmt: skip
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    owner.delete()
    sys.exit(peak > MOST_MB)


def _repeated(original: Path, target: Path, size: int) -> Path:
    """The lines of the original again and again until the file has this size, each time with other ids."""
    data = original.read_bytes()
    with target.open("wb") as file:
        for number in range(1 << 16):
            if file.tell() >= size:
                break
            file.write(_IDS.sub(lambda match: b'"%b":"%b%04x' % (match[1], match[2], number), data))  # noqa: B023
    return target


if __name__ == "__main__":
    main()
