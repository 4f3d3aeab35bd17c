"""The shipped profiles, one TOML file each."""
