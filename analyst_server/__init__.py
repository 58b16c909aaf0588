"""The analyst's process: REST API, store, ingest, alignment, training."""
