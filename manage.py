#!/usr/bin/env python3
"""Run an administrative command of convmemory."""

from convmemory.__main__ import main

if __name__ == "__main__":
    main()
