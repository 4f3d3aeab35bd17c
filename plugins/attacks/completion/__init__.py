"""Completion of documents and training pairs: verbatim and discoverable extraction."""
