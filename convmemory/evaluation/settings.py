"""Settings of `manage.py evaluate`: those of the program, with the app that has the command."""

from convmemory.settings import *  # noqa: F403
from convmemory.settings import INSTALLED_APPS as OF_THE_PROGRAM

INSTALLED_APPS = [*OF_THE_PROGRAM, "convmemory.evaluation"]
