"""Many reports beside each other: what is in a folder of runs, and trends over rounds."""
