"""Settings of `manage.py bench` and `manage.py evaluate`: the program's, with the app of these commands first."""

from convmemory.settings import *  # noqa: F403
from convmemory.settings import INSTALLED_APPS as OF_THE_PROGRAM

INSTALLED_APPS = ["benchmarks", *OF_THE_PROGRAM]
