"""What runs beside a harness: the HTTP client and the trials on disk."""
