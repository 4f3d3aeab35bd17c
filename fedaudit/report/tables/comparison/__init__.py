"""The tables of reports beside each other."""
