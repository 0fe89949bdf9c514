"""Tools with one definition each, which chat, API and MCP share."""
