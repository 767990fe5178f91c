"""The HTTP API: one router for each noun, errors as problem+json, limits checked while reading."""
