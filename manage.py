#!/usr/bin/env python3
"""Run an administrative command of convmemory."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convmemory.settings")
    from django.core.management import execute_from_command_line

    from convmemory.core.errors import SettingError

    try:
        execute_from_command_line(sys.argv)
    except SettingError as error:  # the settings are read before any command runs
        sys.exit(str(error))


if __name__ == "__main__":
    main()
