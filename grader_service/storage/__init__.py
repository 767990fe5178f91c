"""The database and the blob store: what was accepted, who is working on it, what was decided."""
