"""Files that only the server's user can read, uploads, temporary folders, and limits of decoders."""
