"""Readers of transcripts that other programs write.

Each format has an importer (`base.Importer`); `detect.py` finds the one that fits. They read files and yield drafts,
and never touch the database.
"""
