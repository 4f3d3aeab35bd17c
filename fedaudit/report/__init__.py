"""The report: its document, how it is shown, and what it keeps out of sight."""
