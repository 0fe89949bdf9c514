"""Checks passwords, with pauses after wrong ones and a limited share of the machine for their hashes."""
