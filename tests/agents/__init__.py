"""The real programs of other vendors, from npm, with a scripted model: `make agents`."""
