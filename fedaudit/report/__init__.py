"""The report: its document, and how it is shown."""
