"""Pictures of every page for docs/pages.md: `make pages`, or `python -m tests.pictures`."""
