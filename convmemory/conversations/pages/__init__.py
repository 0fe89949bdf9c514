"""Pages of conversations: their addresses' views, and the rendering of messages."""
