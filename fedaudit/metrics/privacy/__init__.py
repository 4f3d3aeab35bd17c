"""Membership inference, exposure of canaries, and lower bounds on epsilon."""
