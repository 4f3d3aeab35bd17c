"""A federation on disk: the files it left, and checks that they are complete and unchanged."""
