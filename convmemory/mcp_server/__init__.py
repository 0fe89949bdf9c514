"""The tools over the Model Context Protocol."""
