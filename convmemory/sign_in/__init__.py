"""Checking passwords: pauses after wrong ones, and a bounded share of the machine for their hashes."""
