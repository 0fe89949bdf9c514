"""Readers of transcripts that other programs leave behind.

Each format has an importer (`base.Importer`); `detect.py` finds the one that fits. They read files
and yield drafts, and never touch the database.
"""
