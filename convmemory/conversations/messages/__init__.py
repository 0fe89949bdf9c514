"""Messages and turns: values, storing, numbering, hidden keys, and the bytes stored."""
