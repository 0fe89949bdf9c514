"""One definition per tool, used by chat, API and MCP alike."""
