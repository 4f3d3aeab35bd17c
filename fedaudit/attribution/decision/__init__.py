"""Who is flagged, and how often that would be wrong."""
