"""Conversion of another framework's federation folder into one of fedaudit's."""
