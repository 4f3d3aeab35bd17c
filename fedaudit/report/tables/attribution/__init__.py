"""The tables of an attribution: whom the protocol flags, and what other methods say of it."""
