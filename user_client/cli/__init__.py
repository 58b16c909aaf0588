"""Arguments, progress, hints and exit codes around the SDK."""
