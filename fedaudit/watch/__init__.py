"""A member's own audit, in every round, with its records, held-out ones and planted secrets."""
